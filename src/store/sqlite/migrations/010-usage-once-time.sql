-- When what has been counted began, so that it can be taken away with its rows; what is there counts as of now.
create table usage_once_timed (
  name text not null primary key,
  time integer not null                -- Unix milliseconds
) strict, without rowid;
insert into usage_once_timed select name, unixepoch() * 1000 from usage_once;
drop table usage_once;
alter table usage_once_timed rename to usage_once;
create index usage_once_time on usage_once (time);
