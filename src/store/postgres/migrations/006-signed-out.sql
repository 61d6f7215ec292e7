-- Sessions of the admin side that were ended before their time; their cookies open nothing any more.
create table signed_out (
  session text primary key,
  until   bigint not null              -- Unix milliseconds; from then on the cookie has ended by itself
);
