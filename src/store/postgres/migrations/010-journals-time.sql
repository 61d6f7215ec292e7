-- The newest row of each journal that has been inserted, so that journals can be taken away with their rows; of those that are
-- there, none is newer than now. With a default, as gateways of earlier versions insert without it until they are replaced.
alter table journal add column time bigint not null default (extract(epoch from now()) * 1000)::bigint;
