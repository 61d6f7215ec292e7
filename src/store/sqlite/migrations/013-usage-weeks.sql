-- Sums by the week, kept as those of days are: what spans months is added up from few rows. They follow the sums of days by
-- themselves, whoever writes these. Weeks begin on Thursdays in UTC, as 1970 did.
create table usage_week (
  week       integer not null,         -- its first millisecond
  key        text not null,
  model      text not null,
  target     text not null,
  holder     integer not null,
  requests   integer not null,
  failed     integer not null,
  unsettled  integer not null,
  tokens_in  integer not null,
  cached     integer not null,
  tokens_out integer not null,
  reasoning  integer not null,
  cost       integer not null,
  primary key (week, key, model, target, holder)
) strict, without rowid;

insert into usage_week
  select day - day % 604800000, key, model, target, holder, sum(requests), sum(failed), sum(unsettled),
    sum(tokens_in), sum(cached), sum(tokens_out), sum(reasoning), sum(cost)
  from usage_day group by 1, 2, 3, 4, 5;

create trigger usage_week_added after insert on usage_day begin
  insert into usage_week values (
    new.day - new.day % 604800000, new.key, new.model, new.target, new.holder, new.requests, new.failed, new.unsettled,
    new.tokens_in, new.cached, new.tokens_out, new.reasoning, new.cost
  ) on conflict (week, key, model, target, holder) do update set
    requests = requests + excluded.requests,
    failed = failed + excluded.failed,
    unsettled = unsettled + excluded.unsettled,
    tokens_in = tokens_in + excluded.tokens_in,
    cached = cached + excluded.cached,
    tokens_out = tokens_out + excluded.tokens_out,
    reasoning = reasoning + excluded.reasoning,
    cost = cost + excluded.cost;
end;

create trigger usage_week_changed after update on usage_day begin
  update usage_week set
    requests = requests + new.requests - old.requests,
    failed = failed + new.failed - old.failed,
    unsettled = unsettled + new.unsettled - old.unsettled,
    tokens_in = tokens_in + new.tokens_in - old.tokens_in,
    cached = cached + new.cached - old.cached,
    tokens_out = tokens_out + new.tokens_out - old.tokens_out,
    reasoning = reasoning + new.reasoning - old.reasoning,
    cost = cost + new.cost - old.cost
  where week = new.day - new.day % 604800000 and key = new.key and model = new.model and target = new.target and holder = new.holder;
end;
