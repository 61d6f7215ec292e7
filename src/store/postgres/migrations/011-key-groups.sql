-- Groups that have been disabled or enabled: the keys of a disabled one, and of all groups below it, are refused.
create table key_group (
  name     text collate "C" primary key,
  disabled bigint,                     -- Unix milliseconds; null: it was enabled again
  changed  bigint not null             -- Unix milliseconds of the last change
);

-- Every instance hears of it, as of changes of keys.
create trigger key_group_tells after insert or update or delete on key_group for each statement execute function tell_key_change();
