-- What was changed through the admin side, by whom and from where.
create table audit (
  id      integer primary key autoincrement,
  time    integer not null,
  who     text not null,
  address text not null,
  action  text not null,
  subject text not null,
  detail  text not null                -- JSON, without secrets
) strict;
