-- Times are Unix milliseconds, money is integer nano-dollars, tokens that nobody reported are null.

create table key (
  hash    text primary key,            -- SHA-256 of the whole key, hex; the key itself is nowhere
  id      text not null unique,
  name    text not null,
  models  text,                        -- JSON list; null: all
  created integer not null,
  expires integer,
  revoked integer
) strict, without rowid;

-- A name stands for one key at a time, and is free again once that key is revoked.
create unique index key_name on key (name) where revoked is null;

create table usage (
  id         text not null unique,     -- the exchange's: writing a row again changes nothing
  time       integer not null,
  key        text not null,
  model      text not null,
  target     text not null,
  protocol   text not null,
  operation  text not null,
  status     integer not null,
  outcome    text not null,
  streaming  integer not null,
  attempts   text not null,            -- JSON list
  first_byte real,
  duration   real not null,
  source     text not null,
  cost       integer,
  tokens_in  integer,
  cached     integer,
  tokens_out integer,
  reasoning  integer,
  detail     text                      -- JSON: the rarer counts; null: no usage at all
) strict;

create index usage_time on usage (time);
create index usage_key on usage (key, time);
create index usage_model on usage (model, time);

-- Sums by the hour, brought up to date in the transaction that inserts rows, from the rows that were new.
create table usage_hour (
  hour       integer not null,         -- its first millisecond
  key        text not null,
  model      text not null,
  target     text not null,
  requests   integer not null,
  failed     integer not null,
  unsettled  integer not null,
  tokens_in  integer not null,
  cached     integer not null,
  tokens_out integer not null,
  reasoning  integer not null,
  cost       integer not null,
  primary key (hour, key, model, target)
) strict, without rowid;
