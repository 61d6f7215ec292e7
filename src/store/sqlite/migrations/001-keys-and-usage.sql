-- Times are Unix milliseconds, money is integer nano-dollars, tokens that nobody reported are null.

create table key (
  hash    text not null primary key,   -- SHA-256 of the whole key, hex; the key itself is nowhere
  id      text not null unique,
  name    text not null,
  models  text,                        -- JSON list; null: all
  created integer not null,
  expires integer,
  revoked integer
) strict;

-- A name stands for one key at a time, and is free again once that key is revoked.
create unique index key_name on key (name) where revoked is null;

-- What many rows have in common, written once: that makes a row half as long, and half as dear to write.
create table usage_kind (
  number     integer primary key,
  key        text not null,
  model      text not null,
  target     text not null,
  protocol   text not null,
  operation  text not null,
  status     integer not null,
  outcome    text not null,
  streaming  integer not null,
  source     text not null,
  unique (key, model, target, protocol, operation, status, outcome, streaming, source)
) strict;

create table usage (
  id         text not null,            -- the exchange's
  time       integer not null,
  kind       integer not null,         -- number of a usage_kind
  attempts   text not null,            -- JSON list; a number is the start of an only attempt that is as its kind says
  first_byte real,
  duration   real not null,
  cost       integer,
  tokens_in  integer,
  cached     integer,
  tokens_out integer,
  reasoning  integer,
  detail     text,                     -- JSON: the rarer counts; null: no usage at all
  -- Writing a row again changes nothing. An exchange has one time, so this index, which grows at its end and finds spans
  -- of time, makes its id unique too. Every further index costs each row as much as half of its own writing.
  unique (time, id)
) strict;

-- Sums by the hour, brought up to date in the transaction that inserts rows, by the rows that were new.
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
