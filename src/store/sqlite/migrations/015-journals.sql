-- How far each journal has been inserted. Of rows that have been deleted, only this shows that they were there before.
create table journal (
  name     text primary key,           -- the prefix of its files' names
  position integer not null            -- number of a file times 2^33, plus bytes in that file
) strict, without rowid;
