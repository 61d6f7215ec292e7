-- Sums by the week, kept as those of days are: what spans months is added up from few rows. Weeks begin on Thursdays in UTC, as
-- 1970 did.
create table usage_week (
  week       bigint not null,          -- its first millisecond
  key        text collate "C" not null,
  model      text collate "C" not null,
  target     text collate "C" not null,
  holder     integer not null,
  requests   bigint not null,
  failed     bigint not null,
  unsettled  bigint not null,
  tokens_in  bigint not null,
  cached     bigint not null,
  tokens_out bigint not null,
  reasoning  bigint not null,
  cost       bigint not null,
  primary key (week, key, model, target, holder)
) with (fillfactor = 70);

-- They follow the sums of days by themselves: a gateway that does not know of them yet may write these too.
create function sum_up_weeks() returns trigger language plpgsql set search_path from current as $$
begin
  if not exists (select from added) then
    return null;
  end if;
  -- One after the other: a statement comes here twice, so no order of rows would keep two from waiting for each other.
  perform pg_advisory_xact_lock(7017338213);
  if tg_op = 'INSERT' then
    insert into usage_week as kept
      select day - day % 604800000, key, model, target, holder, sum(requests), sum(failed), sum(unsettled),
        sum(tokens_in), sum(cached), sum(tokens_out), sum(reasoning), sum(cost)
      from added group by 1, 2, 3, 4, 5
    on conflict (week, key, model, target, holder) do update set
      requests = kept.requests + excluded.requests,
      failed = kept.failed + excluded.failed,
      unsettled = kept.unsettled + excluded.unsettled,
      tokens_in = kept.tokens_in + excluded.tokens_in,
      cached = kept.cached + excluded.cached,
      tokens_out = kept.tokens_out + excluded.tokens_out,
      reasoning = kept.reasoning + excluded.reasoning,
      cost = kept.cost + excluded.cost;
  else
    insert into usage_week as kept
      select day - day % 604800000, key, model, target, holder, sum(requests), sum(failed), sum(unsettled),
        sum(tokens_in), sum(cached), sum(tokens_out), sum(reasoning), sum(cost)
      from (
        select * from added
        union all
        select day, key, model, target, holder, -requests, -failed, -unsettled,
          -tokens_in, -cached, -tokens_out, -reasoning, -cost
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
      cost = kept.cost + excluded.cost;
  end if;
  return null;
end $$;
create trigger usage_week_added after insert on usage_day
  referencing new table as added for each statement execute function sum_up_weeks();
create trigger usage_week_changed after update on usage_day
  referencing old table as replaced new table as added for each statement execute function sum_up_weeks();

insert into usage_week
  select day - day % 604800000, key, model, target, holder, sum(requests), sum(failed), sum(unsettled),
    sum(tokens_in), sum(cached), sum(tokens_out), sum(reasoning), sum(cost)
  from usage_day group by 1, 2, 3, 4, 5;
