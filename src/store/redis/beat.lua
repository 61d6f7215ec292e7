-- ARGV[3]: owner, [4]: milliseconds that it lives without another heartbeat, 0: it leaves, [5]: maximum number of reservations to
-- orphan, [6]: maximum number of orphans to return, [7]: least milliseconds until they are returned again, [8]: milliseconds to keep
-- orphans.
-- Keys belong to one epoch of the server: a server that was restarted, emptied or replaced another one begins empty, regardless of its
-- stored data; gateways then send their running reservations, and the ledger the money spent.
local owner, life, most = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local about = redis.pcall('INFO', 'server')
local run = type(about) == 'string' and string.match(about, 'run_id:(%w+)') or '0'

-- The format of everything that scripts store, to be raised with it: gateways of other versions have keys of their own at this server, and
-- count apart. Once they have left it for as long as their rows may need to the ledger, all begins anew, with sums that include these.
local FORMAT, RUN = '3', string.sub(run, 1, 12)
local formats, begun, mixed = P .. 'formats', P .. RUN .. '-' .. FORMAT, P .. RUN .. '-' .. FORMAT .. ':mixed'
if life > 0 then redis.call('ZADD', formats, now + life, FORMAT) end
redis.call('PEXPIRE', formats, DAY)
-- The first format had no such list.
local others = redis.call('ZCOUNT', P .. RUN .. ':owners', '(' .. whole(now), '+inf')
for _, format in ipairs(redis.call('ZRANGEBYSCORE', formats, '(' .. whole(now), '+inf')) do
  if format ~= FORMAT then others = others + 1 end
end
local last = tonumber(redis.call('GET', mixed))
if others > 0 then
  redis.call('SET', mixed, whole(now), 'PX', DAY)
elseif last and now - last >= life and life > 0 then
  redis.call('DEL', mixed, begun)
  last = nil
end
local time = redis.call('TIME')
redis.call('SET', begun, time[1] .. time[2], 'NX')
redis.call('PEXPIRE', begun, DAY)
local epoch = RUN .. '-' .. FORMAT .. '-' .. redis.call('GET', begun)
P = P .. epoch .. ':'
local owners = P .. 'owners'
local known = redis.call('ZSCORE', owners, owner)
redis.call('ZADD', owners, now + life, owner)
redis.call('PEXPIRE', owners, DAY)
-- The clock was set back: nobody is taken for alive for longer than from now on. All have the same life; 0 ends only this one.
if life > 0 then
  for _, ahead in ipairs(redis.call('ZRANGEBYSCORE', owners, '(' .. whole(now + life), '+inf')) do
    redis.call('ZADD', owners, now + life, ahead)
  end
end
redis.call('PEXPIRE', P .. 'reservations:' .. owner, DAY)

-- Money and tokens of dead owners' reservations stay reserved until the ledger knows what was used.
local ended = 0
ORPHANS, DUE = P .. 'orphans', P .. 'due'
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', owners, '-inf', now)) do
  local reservations = P .. 'reservations:' .. dead
  while ended < most and redis.call('EXISTS', reservations) == 1 do
    local some = redis.call('HSCAN', reservations, 0, 'COUNT', 100)[2]
    for i = 1, #some, 2 do
      local _, reservation = parseReservation(some[i + 1])
      for _, level in ipairs(reservation.levels) do leave(level[1]) end
      redis.call('HDEL', reservations, some[i])
      redis.call('HSET', ORPHANS, some[i], cjson.encode({ now, some[i + 1] }))
      redis.call('ZADD', DUE, now, some[i])
      ended = ended + 1
    end
    redis.call('PEXPIRE', ORPHANS, 2 * DAY)
    redis.call('PEXPIRE', DUE, 2 * DAY)
  end
  if redis.call('EXISTS', reservations) == 0 then redis.call('ZREM', owners, dead) end
end
local alive = redis.call('ZCOUNT', owners, '(' .. whole(now), '+inf')

-- Orphans whose row is to be looked up: of each its id and JSON.
local reply = { epoch, known and 1 or 0, alive, ended, (others > 0 or last) and 1 or 0 }
for _, id in ipairs(redis.call('ZRANGEBYSCORE', DUE, '-inf', now, 'LIMIT', 0, ARGV[6])) do
  local text = redis.call('HGET', ORPHANS, id)
  local orphan = text and cjson.decode(text)
  if not orphan or now - orphan[1] >= tonumber(ARGV[8]) then
    redis.call('HDEL', ORPHANS, id)
    redis.call('ZREM', DUE, id)
  else
    -- The longer a row is missing, the less often it is looked up.
    redis.call('ZADD', DUE, now + math.max(tonumber(ARGV[7]), math.floor((now - orphan[1]) / 10)), id)
    reply[#reply + 1] = id
    reply[#reply + 1] = string.sub(orphan[2], string.find(orphan[2], '|', 1, true) + 1)
  end
end
return reply
