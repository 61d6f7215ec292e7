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
insert into key values ('1796fdad47d1fe41073d83710db0f4ce08d8ee350b00b9b3c41a6457b8fbee9e', '7240ym8iyb', 'alice', NULL, 1795731226393, NULL, NULL, 'acme/research', 'Alice', '{"app":"search"}', NULL, NULL, NULL, NULL, NULL, 1, NULL);
insert into key values ('ca0925bf6f4d7b4e92538fa1a3c4ae5ec40ea0c3ae224644abdd8744421fdff9', 'rerizil4sw', 'bob', '["echo"]', 1795731240489, NULL, NULL, 'acme', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 2, '{"rpm":600,"budgets":[{"nano":5000000000,"per":"month","soft":false}]}');
insert into key values ('a782d621a28b39b96a99892c6319813af03b7fe5afb5882822d3adb55979cf62', 'sgeomqwq2c', 'carol', NULL, 1795731253575, NULL, 1795731290725, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 4, NULL);
insert into usage values ('01a219ec-b0da-7845-b24b-b2c068657839', 1795731271898, 1, '9.0', 63.0, 63.0, 15000, 5, 0, 5, NULL, '{}', 1);
insert into usage values ('01a219ec-b13a-7f05-9ab5-ed5247d8cfc2', 1795731271994, 2, '16.0', 65.0, 65.0, 15000, 5, 0, 5, NULL, '{}', 1);
insert into usage values ('01a219ec-b1b7-74b9-b033-8116c7a9d102', 1795731272119, 1, '1.0', 31.0, 31.0, 15000, 5, 0, 5, NULL, '{}', 1);
insert into usage values ('01a219ec-b1e0-75ea-98df-59c826181999', 1795731272160, 3, '260.0', 302.0, 302.0, 15000, 5, 0, 5, NULL, '{}', 2);
insert into usage values ('01a219ec-b319-7b0f-9a41-af6b9168be29', 1795731272473, 4, '2.0', 13.0, 13.0, 15000, 5, 0, 5, NULL, '{}', 2);
insert into usage values ('01a219ec-b342-7456-94d3-4f56e1f634ac', 1795731272514, 3, '18.0', 112.0, 112.0, 15000, 5, 0, 5, NULL, '{}', 2);
insert into usage values ('01a219ec-b3f9-7280-9a04-4943292968aa', 1795731272697, 5, '30.0', 83.0, 83.0, 15000, 5, 0, 5, NULL, '{}', 0);
insert into usage values ('01a219ec-b4a7-771c-9ce3-7b7891bb1bd8', 1795731272871, 6, '5.0', 67.0, 67.0, 15000, 5, 0, 5, NULL, '{}', 0);
insert into usage values ('01a219ec-b528-7833-b2f5-e028500bfeaf', 1795731273000, 5, '1.0', 104.0, 104.0, 15000, 5, 0, 5, NULL, '{}', 0);
insert into usage values ('01a219ec-b5e4-792d-8874-5eeefd57718d', 1795731273188, 7, '18.0', 44.0, 45.0, NULL, NULL, NULL, NULL, NULL, NULL, 1);
insert into usage values ('01a219ec-b652-7ca5-b389-0436d797ab20', 1795731273298, 8, '[]', NULL, 36.0, 0, NULL, NULL, NULL, NULL, NULL, 1);
insert into usage_holder values (0, '', '');
insert into usage_holder values (1, 'acme/research', '{"app":"search"}');
insert into usage_holder values (2, 'acme', '');
insert into usage_hour values (1795730400000, '7240ym8iyb', '', '', 1, 1, 1, 0, 0, 0, 0, 0, 0);
insert into usage_hour values (1795730400000, '7240ym8iyb', 'demo-error', 'demo:error', 1, 1, 1, 1, 0, 0, 0, 0, 0);
insert into usage_hour values (1795730400000, '7240ym8iyb', 'echo', 'demo:echo', 1, 3, 0, 0, 15, 0, 15, 0, 45000);
insert into usage_hour values (1795730400000, 'rerizil4sw', 'echo', 'demo:echo', 2, 3, 0, 0, 15, 0, 15, 0, 45000);
insert into usage_hour values (1795730400000, 'sgeomqwq2c', 'echo', 'demo:echo', 0, 3, 0, 0, 15, 0, 15, 0, 45000);
insert into price values ('314d0681bbb1', '{"input":1,"output":2}', 'gateway.yaml', 1795731271676);
insert into usage_kind values (1, '7240ym8iyb', 'echo', 'demo:echo', 'openai-chat', 'chat', 200, 'completed', 1, 'reported', '314d0681bbb1');
insert into usage_kind values (2, '7240ym8iyb', 'echo', 'demo:echo', 'openai-chat', 'chat', 200, 'completed', 0, 'reported', '314d0681bbb1');
insert into usage_kind values (3, 'rerizil4sw', 'echo', 'demo:echo', 'openai-chat', 'chat', 200, 'completed', 1, 'reported', '314d0681bbb1');
insert into usage_kind values (4, 'rerizil4sw', 'echo', 'demo:echo', 'openai-chat', 'chat', 200, 'completed', 0, 'reported', '314d0681bbb1');
insert into usage_kind values (5, 'sgeomqwq2c', 'echo', 'demo:echo', 'openai-chat', 'chat', 200, 'completed', 1, 'reported', '314d0681bbb1');
insert into usage_kind values (6, 'sgeomqwq2c', 'echo', 'demo:echo', 'openai-chat', 'chat', 200, 'completed', 0, 'reported', '314d0681bbb1');
insert into usage_kind values (7, '7240ym8iyb', 'demo-error', 'demo:error', 'openai-chat', 'chat', 404, 'upstream_error', 0, 'none', '');
insert into usage_kind values (8, '7240ym8iyb', '', '', 'openai-chat', 'chat', 404, 'rejected', 0, 'free', '');
insert into usage_day values (1795651200000, '7240ym8iyb', '', '', 1, 1, 1, 0, 0, 0, 0, 0, 0);
insert into usage_day values (1795651200000, '7240ym8iyb', 'demo-error', 'demo:error', 1, 1, 1, 1, 0, 0, 0, 0, 0);
insert into usage_day values (1795651200000, '7240ym8iyb', 'echo', 'demo:echo', 1, 3, 0, 0, 15, 0, 15, 0, 45000);
insert into usage_day values (1795651200000, 'rerizil4sw', 'echo', 'demo:echo', 2, 3, 0, 0, 15, 0, 15, 0, 45000);
insert into usage_day values (1795651200000, 'sgeomqwq2c', 'echo', 'demo:echo', 0, 3, 0, 0, 15, 0, 15, 0, 45000);
CREATE UNIQUE INDEX key_name on key (name) where revoked is null;
CREATE INDEX key_changed on key (changed);
pragma user_version = 9;
