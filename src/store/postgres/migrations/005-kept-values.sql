-- What plugins keep for a while, like answers of a cache.
create table kept_value (
  space text not null,                 -- whose names these are
  name  text not null,
  time   bigint not null,              -- Unix milliseconds
  until  bigint not null,              -- Unix milliseconds
  size   bigint not null,              -- bytes
  value bytea not null,
  primary key (space, name)
);
create index kept_value_until on kept_value (until);
create index kept_value_size on kept_value (space, time, name, size);
