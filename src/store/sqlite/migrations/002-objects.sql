-- Whose the objects are that providers keep: files, stores, containers, answers. The first key that an id was told to has it.
create table object (
  id       text not null,               -- the vendor's
  provider text not null,
  key      text not null,               -- id of the key that made it
  "group"  text,                        -- that key's group then
  model    text,                        -- of an answer: the marketplace's model that made it
  time     integer not null,
  primary key (id, provider)
) strict, without rowid;

alter table key add column "group" text;
