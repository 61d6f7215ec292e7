-- An entry of an index has at most 2,704 bytes, and tags may be longer: they are told apart by two digests.
alter table usage_holder drop constraint usage_holder_group_path_tags_key;
create unique index usage_holder_digests on usage_holder (group_path, md5(tags), hashtextextended(tags, 0));
