-- What budgets count of rows without a cost, in nano-dollars. Of rows from before, nothing is known.
alter table usage add column assumed_cost integer;
alter table usage_hour add column assumed_cost integer not null default 0;
alter table usage_day add column assumed_cost integer not null default 0;
alter table usage_week add column assumed_cost integer not null default 0;

drop trigger usage_week_added;
create trigger usage_week_added after insert on usage_day begin
  insert into usage_week values (
    new.day - new.day % 604800000, new.key, new.model, new.target, new.holder, new.requests, new.failed, new.unsettled,
    new.tokens_in, new.cached, new.tokens_out, new.reasoning, new.cost, new.assumed_cost
  ) on conflict (week, key, model, target, holder) do update set
    requests = requests + excluded.requests,
    failed = failed + excluded.failed,
    unsettled = unsettled + excluded.unsettled,
    tokens_in = tokens_in + excluded.tokens_in,
    cached = cached + excluded.cached,
    tokens_out = tokens_out + excluded.tokens_out,
    reasoning = reasoning + excluded.reasoning,
    cost = cost + excluded.cost,
    assumed_cost = assumed_cost + excluded.assumed_cost;
end;

drop trigger usage_week_changed;
create trigger usage_week_changed after update on usage_day begin
  update usage_week set
    requests = requests + new.requests - old.requests,
    failed = failed + new.failed - old.failed,
    unsettled = unsettled + new.unsettled - old.unsettled,
    tokens_in = tokens_in + new.tokens_in - old.tokens_in,
    cached = cached + new.cached - old.cached,
    tokens_out = tokens_out + new.tokens_out - old.tokens_out,
    reasoning = reasoning + new.reasoning - old.reasoning,
    cost = cost + new.cost - old.cost,
    assumed_cost = assumed_cost + new.assumed_cost - old.assumed_cost
  where week = new.day - new.day % 604800000 and key = new.key and model = new.model and target = new.target and holder = new.holder;
end;
