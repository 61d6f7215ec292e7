-- What budgets count of rows without a cost, in nano-dollars. Of rows from before, nothing is known. A gateway that does not know
-- of it yet may write too.
alter table usage add column assumed_cost bigint;
alter table usage_hour add column assumed_cost bigint not null default 0;
alter table usage_day add column assumed_cost bigint not null default 0;
alter table usage_week add column assumed_cost bigint not null default 0;

create or replace function sum_up_weeks() returns trigger language plpgsql set search_path from current as $$
begin
  if not exists (select from added) then
    return null;
  end if;
  -- One after the other: a statement comes here twice, so no order of rows would keep two from waiting for each other.
  perform pg_advisory_xact_lock(7017338213);
  if tg_op = 'INSERT' then
    insert into usage_week as kept
      select day - day % 604800000, key, model, target, holder, sum(requests), sum(failed), sum(unsettled),
        sum(tokens_in), sum(cached), sum(tokens_out), sum(reasoning), sum(cost), sum(assumed_cost)
      from added group by 1, 2, 3, 4, 5
    on conflict (week, key, model, target, holder) do update set
      requests = kept.requests + excluded.requests,
      failed = kept.failed + excluded.failed,
      unsettled = kept.unsettled + excluded.unsettled,
      tokens_in = kept.tokens_in + excluded.tokens_in,
      cached = kept.cached + excluded.cached,
      tokens_out = kept.tokens_out + excluded.tokens_out,
      reasoning = kept.reasoning + excluded.reasoning,
      cost = kept.cost + excluded.cost,
      assumed_cost = kept.assumed_cost + excluded.assumed_cost;
  else
    insert into usage_week as kept
      select day - day % 604800000, key, model, target, holder, sum(requests), sum(failed), sum(unsettled),
        sum(tokens_in), sum(cached), sum(tokens_out), sum(reasoning), sum(cost), sum(assumed_cost)
      from (
        select * from added
        union all
        select day, key, model, target, holder, -requests, -failed, -unsettled,
          -tokens_in, -cached, -tokens_out, -reasoning, -cost, -assumed_cost
        from replaced
      ) as more group by 1, 2, 3, 4, 5
    on conflict (week, key, model, target, holder) do update set
      requests = kept.requests + excluded.requests,
      failed = kept.failed + excluded.failed,
      unsettled = kept.unsettled + excluded.unsettled,
      tokens_in = kept.tokens_in + excluded.tokens_in,
      cached = kept.cached + excluded.cached,
      tokens_out = kept.tokens_out + excluded.tokens_out,
      reasoning = kept.reasoning + excluded.reasoning,
      cost = kept.cost + excluded.cost,
      assumed_cost = kept.assumed_cost + excluded.assumed_cost;
  end if;
  return null;
end $$;
