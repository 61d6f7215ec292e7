-- Usage that may be told more than once, as that of an answer made in the background: what has been counted.
create table usage_once (
  name text not null primary key
) strict, without rowid;
