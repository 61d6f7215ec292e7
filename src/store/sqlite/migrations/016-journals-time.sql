-- The newest row of each journal that has been inserted, so that journals can be taken away with their rows; of those that are
-- there, none is newer than now.
create table journal_timed (
  name     text primary key,           -- the prefix of its files' names
  position integer not null,           -- number of a file times 2^33, plus bytes in that file
  time     integer not null            -- Unix milliseconds
) strict, without rowid;
insert into journal_timed select name, position, unixepoch() * 1000 from journal;
drop table journal;
alter table journal_timed rename to journal;
create index journal_time on journal (time);
