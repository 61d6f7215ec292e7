-- What rows were reckoned with: the terms of each price by their name, so that an old row can be reckoned again.
create table price (
  version text not null primary key,   -- 12 hex digits of the terms' own SHA-256
  terms   text not null,               -- JSON: USD per million tokens and the like
  source  text not null,               -- gateway.yaml, or the table and its version
  since   integer not null             -- when it was first in use here
) strict, without rowid;

-- The kind of a row names its price too; '' where there is none.
create table usage_kind_priced (
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
  price      text not null,
  unique (key, model, target, protocol, operation, status, outcome, streaming, source, price)
) strict;
insert into usage_kind_priced select *, '' from usage_kind;
drop table usage_kind;
alter table usage_kind_priced rename to usage_kind;
