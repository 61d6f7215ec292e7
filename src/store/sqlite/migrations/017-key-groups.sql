-- Groups that have been disabled or enabled: the keys of a disabled one, and of all groups below it, are refused.
create table key_group (
  name     text primary key,
  disabled integer,                    -- Unix milliseconds; null: it was enabled again
  changed  integer not null            -- Unix milliseconds of the last change
) strict, without rowid;
