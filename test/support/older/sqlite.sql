CREATE TABLE key (
  hash    text not null primary key,   -- SHA-256 of the whole key, hex; the key itself is nowhere
  id      text not null unique,
  name    text not null,
  models  text,                        -- JSON list; null: all
  created integer not null,
  expires integer,
  revoked integer
, "group" text, owner text, tags text, paths text, addresses text, disabled integer, old_hash text, old_until integer, changed integer not null default 0, limits text) strict;
CREATE TABLE usage (
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
  detail     text, holder integer not null default 0,                     -- JSON: the rarer counts; null: no usage at all
  -- Writing a row again changes nothing. An exchange has one time, so this index, which grows at its end and finds spans
  -- of time, makes its id unique too. Every further index costs each row as much as half of its own writing.
  unique (time, id)
) strict;
CREATE TABLE object (
  id       text not null,               -- the vendor's
  provider text not null,
  key      text not null,               -- id of the key that made it
  "group"  text,                        -- that key's group then
  model    text,                        -- of an answer: the marketplace's model that made it
  time     integer not null,
  primary key (id, provider)
) strict, without rowid;
CREATE TABLE usage_once (
  name text not null primary key
) strict, without rowid;
CREATE TABLE usage_holder (
  number     integer primary key,      -- 0: neither
  group_path text not null,
  tags       text not null,            -- JSON object in the order of its names; '': none
  unique (group_path, tags)
) strict;
CREATE TABLE "usage_hour" (
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
CREATE TABLE usage_pruned (
  before integer not null
) strict;
CREATE TABLE price (
  version text not null primary key,   -- 12 hex digits of the terms' own SHA-256
  terms   text not null,               -- JSON: USD per million tokens and the like
  source  text not null,               -- gateway.yaml, or the table and its version
  since   integer not null             -- when it was first in use here
) strict, without rowid;
CREATE TABLE "usage_kind" (
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
CREATE TABLE usage_day (
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
CREATE TABLE audit (
  id      integer primary key autoincrement,
  time    integer not null,
  who     text not null,
  address text not null,
  action  text not null,
  subject text not null,
  detail  text not null                -- JSON, without secrets
) strict;
insert into key values ('bf425a3adc887783a86187ad95820824e4480ca5145454e73676970cba48fb93', 'pgr3iycw9i', 'alice', NULL, 1795731996435, NULL, NULL, 'acme/research', 'Alice', '{"app":"search"}', NULL, NULL, NULL, NULL, NULL, 1, NULL);
insert into key values ('2283823f231fe4f8db517e416ffad8577b5adaa70e4740aeca543130ddc9578d', 'ph8tzi2jy2', 'bob', '["echo"]', 1795732003668, NULL, NULL, 'acme', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 2, '{"rpm":600,"budgets":[{"nano":5000000000,"per":"month","soft":false}]}');
insert into key values ('d640fcfafbc5f72e2d5d61170e68e1b3961e5d22679dbcdaae7fa272c948913d', 'y8zapo2hqj', 'carol', NULL, 1795732008744, NULL, 1795732025965, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 4, NULL);
insert into usage values ('01a219f8-1447-7696-aef8-080462b04617', 1795732018247, 1, '4.0', 45.0, 48.0, 15000, 5, 0, 5, NULL, '{}', 1);
insert into usage values ('01a219f8-1492-7191-a99b-54de9d6c71c9', 1795732018322, 2, '2.0', 51.0, 52.0, 15000, 5, 0, 5, NULL, '{}', 1);
insert into usage values ('01a219f8-14e3-73aa-8c17-080d8ce0245d', 1795732018403, 1, '1.0', 24.0, 24.0, 15000, 5, 0, 5, NULL, '{}', 1);
insert into usage values ('01a219f8-151c-7d38-a5d9-b02ae743f121', 1795732018460, 3, '125.0', 131.0, 131.0, 15000, 5, 0, 5, NULL, '{}', 2);
insert into usage values ('01a219f8-15a8-73cd-849d-80fafa7b5ed8', 1795732018600, 4, '2.0', 7.0, 7.0, 15000, 5, 0, 5, NULL, '{}', 2);
insert into usage values ('01a219f8-15b4-796a-9164-abc6ace6531e', 1795732018612, 3, '2.0', 9.0, 9.0, 15000, 5, 0, 5, NULL, '{}', 2);
insert into usage values ('01a219f8-15c3-75e7-af15-c7e243697311', 1795732018627, 5, '2.0', 6.0, 6.0, 15000, 5, 0, 5, NULL, '{}', 0);
insert into usage values ('01a219f8-15d7-7a79-86cc-8296e2002bbf', 1795732018647, 6, '1.0', 19.0, 19.0, 15000, 5, 0, 5, NULL, '{}', 0);
insert into usage values ('01a219f8-15fc-7f81-a915-a0182b2e0c03', 1795732018684, 5, '1.0', 31.0, 31.0, 15000, 5, 0, 5, NULL, '{}', 0);
insert into usage values ('01a219f8-16a4-7be5-8aa5-29a77b2740a0', 1795732018852, 7, '1.0', 49.0, 84.0, NULL, NULL, NULL, NULL, NULL, NULL, 1);
insert into usage values ('01a219f8-170a-76ec-a691-88fb7bcbcdf5', 1795732018954, 8, '[]', NULL, 3.0, 0, NULL, NULL, NULL, NULL, NULL, 1);
insert into usage_holder values (0, '', '');
insert into usage_holder values (1, 'acme/research', '{"app":"search"}');
insert into usage_holder values (2, 'acme', '');
insert into usage_hour values (1795730400000, 'pgr3iycw9i', '', '', 1, 1, 1, 0, 0, 0, 0, 0, 0);
insert into usage_hour values (1795730400000, 'pgr3iycw9i', 'demo-error', 'demo:error', 1, 1, 1, 1, 0, 0, 0, 0, 0);
insert into usage_hour values (1795730400000, 'pgr3iycw9i', 'echo', 'demo:echo', 1, 3, 0, 0, 15, 0, 15, 0, 45000);
insert into usage_hour values (1795730400000, 'ph8tzi2jy2', 'echo', 'demo:echo', 2, 3, 0, 0, 15, 0, 15, 0, 45000);
insert into usage_hour values (1795730400000, 'y8zapo2hqj', 'echo', 'demo:echo', 0, 3, 0, 0, 15, 0, 15, 0, 45000);
insert into price values ('314d0681bbb1', '{"input":1,"output":2}', 'gateway.yaml', 1795732017980);
insert into usage_kind values (1, 'pgr3iycw9i', 'echo', 'demo:echo', 'openai-chat', 'chat', 200, 'completed', 1, 'reported', '314d0681bbb1');
insert into usage_kind values (2, 'pgr3iycw9i', 'echo', 'demo:echo', 'openai-chat', 'chat', 200, 'completed', 0, 'reported', '314d0681bbb1');
insert into usage_kind values (3, 'ph8tzi2jy2', 'echo', 'demo:echo', 'openai-chat', 'chat', 200, 'completed', 1, 'reported', '314d0681bbb1');
insert into usage_kind values (4, 'ph8tzi2jy2', 'echo', 'demo:echo', 'openai-chat', 'chat', 200, 'completed', 0, 'reported', '314d0681bbb1');
insert into usage_kind values (5, 'y8zapo2hqj', 'echo', 'demo:echo', 'openai-chat', 'chat', 200, 'completed', 1, 'reported', '314d0681bbb1');
insert into usage_kind values (6, 'y8zapo2hqj', 'echo', 'demo:echo', 'openai-chat', 'chat', 200, 'completed', 0, 'reported', '314d0681bbb1');
insert into usage_kind values (7, 'pgr3iycw9i', 'demo-error', 'demo:error', 'openai-chat', 'chat', 404, 'upstream_error', 0, 'none', '');
insert into usage_kind values (8, 'pgr3iycw9i', '', '', 'openai-chat', 'chat', 404, 'rejected', 0, 'free', '');
insert into usage_day values (1795651200000, 'pgr3iycw9i', '', '', 1, 1, 1, 0, 0, 0, 0, 0, 0);
insert into usage_day values (1795651200000, 'pgr3iycw9i', 'demo-error', 'demo:error', 1, 1, 1, 1, 0, 0, 0, 0, 0);
insert into usage_day values (1795651200000, 'pgr3iycw9i', 'echo', 'demo:echo', 1, 3, 0, 0, 15, 0, 15, 0, 45000);
insert into usage_day values (1795651200000, 'ph8tzi2jy2', 'echo', 'demo:echo', 2, 3, 0, 0, 15, 0, 15, 0, 45000);
insert into usage_day values (1795651200000, 'y8zapo2hqj', 'echo', 'demo:echo', 0, 3, 0, 0, 15, 0, 15, 0, 45000);
CREATE UNIQUE INDEX key_name on key (name) where revoked is null;
CREATE INDEX key_changed on key (changed);
pragma user_version = 9;
