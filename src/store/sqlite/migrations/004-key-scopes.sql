-- What a key may be used for, whose it is, and how it is exchanged for another one.
alter table key add column owner text;
alter table key add column tags text;         -- JSON object
alter table key add column paths text;        -- JSON list; null: all
alter table key add column addresses text;    -- JSON list; null: all
alter table key add column disabled integer;
alter table key add column old_hash text;     -- what the key was before it was rotated, which works until then
alter table key add column old_until integer;
-- Counts all changes of keys: who remembers keys asks for those that came later.
alter table key add column changed integer not null default 0;

create index key_changed on key (changed);
