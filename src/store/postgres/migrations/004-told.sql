-- What was last told of a subject by alerts, so that of several gateways one tells it.
create table told (
  subject text primary key,
  state   text not null,
  at      timestamptz not null
);
