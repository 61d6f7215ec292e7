-- Sums by the day in UTC, kept as those of hours are: what spans months is added up from a day's few rows.
create table usage_day (
  day        integer not null,         -- its first millisecond
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
  primary key (day, key, model, target, holder)
) strict, without rowid;
insert into usage_day
  select hour - hour % 86400000, key, model, target, holder, sum(requests), sum(failed), sum(unsettled),
    sum(tokens_in), sum(cached), sum(tokens_out), sum(reasoning), sum(cost)
  from usage_hour group by 1, 2, 3, 4, 5;
