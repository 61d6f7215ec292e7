-- When what has been counted began, so that it can be taken away with its rows; what is there counts as of now.
alter table usage_once add column time bigint not null default (extract(epoch from now()) * 1000)::bigint;
alter table usage_once alter column time drop default;
create index usage_once_time on usage_once (time);
