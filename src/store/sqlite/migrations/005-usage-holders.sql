-- Who held the key of an exchange then: its group and tags, written once for all rows that have them in common.
create table usage_holder (
  number     integer primary key,      -- 0: neither
  group_path text not null,
  tags       text not null,            -- JSON object in the order of its names; '': none
  unique (group_path, tags)
) strict;
insert into usage_holder values (0, '', '');

alter table usage add column holder integer not null default 0;

create table usage_hour_held (
  hour       integer not null,         -- its first millisecond
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
  primary key (hour, key, model, target, holder)
) strict, without rowid;
insert into usage_hour_held
  select hour, key, model, target, 0, requests, failed, unsettled, tokens_in, cached, tokens_out, reasoning, cost
  from usage_hour;
drop table usage_hour;
alter table usage_hour_held rename to usage_hour;

-- Before when rows have been taken away; the sums of their hours stay.
create table usage_pruned (
  before integer not null
) strict;
