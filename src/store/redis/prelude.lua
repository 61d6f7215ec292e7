-- The beginning of all scripts. ARGV[1]: prefix of key names; ARGV[2]: Unix milliseconds, or empty for the server's clock.
local P = ARGV[1]
local now = tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
local second = math.floor(now / 1000)
-- A minute, and the current second.
local SECONDS = 61
local HOUR, DAY = 3600000, 86400000

local function whole(number) return string.format('%.0f', number) end

-- Windows: a hash with a field for each second, modulo SECONDS. There is no timer; Redis expires unused ones.
local function advance(key)
  local state = redis.call('HMGET', key, 'current', 'total', 'last')
  local current, total, last = tonumber(state[1] or 0), tonumber(state[2] or 0), tonumber(state[3] or 0)
  local behind = second - current
  -- After a step back, the window's clock stands still until the time is reached again. After one by more than the window, everything
  -- counts as of now: nobody waits longer than a minute.
  if behind < -SECONDS then
    redis.call('DEL', key)
    redis.call('HSET', key, 'current', second, 'total', whole(total), 'last', second, second % SECONDS, whole(total))
    redis.call('PEXPIRE', key, 2 * SECONDS * 1000)
    return total, second, second
  end
  if behind <= 0 then return total, current, last end
  if behind >= SECONDS then
    redis.call('DEL', key)
    total = 0
  else
    local fields = {}
    for i = 0, behind - 1 do fields[i + 1] = (second - i) % SECONDS end
    for _, amount in ipairs(redis.call('HMGET', key, unpack(fields))) do total = total - tonumber(amount or 0) end
    redis.call('HDEL', key, unpack(fields))
  end
  redis.call('HSET', key, 'current', second, 'total', whole(total))
  redis.call('PEXPIRE', key, 2 * SECONDS * 1000)
  return total, second, last
end

-- Corrects an amount added earlier. Returns the sum and the milliseconds until all amounts have expired.
local function correct(key, time, more)
  local total, current, last = advance(key)
  local at = math.min(math.floor(time / 1000), current)
  if current - at < SECONDS then
    redis.call('HINCRBY', key, at % SECONDS, whole(more))
    total = total + more
    last = math.max(last, at)
    redis.call('HSET', key, 'total', whole(total), 'last', last)
  end
  return total, (last + SECONDS) * 1000 - now
end

-- Returns the milliseconds until another amount fits below a limit.
local function wait(key, amount, limit)
  local total, current = advance(key)
  local fields = {}
  for i = 0, SECONDS - 1 do fields[i + 1] = i end
  local seconds = redis.call('HMGET', key, unpack(fields))
  for at = current - SECONDS + 1, current do
    total = total - tonumber(seconds[at % SECONDS + 1] or 0)
    if total + amount <= limit then return (at + SECONDS) * 1000 - now end
  end
  return 0
end

-- Money: integers as strings. Lua's numbers are doubles, exact to 2^53 nano-dollars only, which is nine million dollars; so Redis
-- adds in 64 bits, and comparisons use two parts: the last nine digits and the rest.
local function parts(text)
  local sign = 1
  if string.sub(text, 1, 1) == '-' then sign, text = -1, string.sub(text, 2) end
  return sign * tonumber('0' .. string.sub(text, 1, -10)), sign * tonumber(string.sub(text, -9))
end

-- Reports whether amounts exceed a limit.
local function exceeds(limit, ...)
  local high, low = parts(limit)
  for _, amount in ipairs({...}) do
    local h, l = parts(amount)
    high, low = high - h, low - l
  end
  return high + math.floor(low / 1e9) < 0
end

local function increase(key, field, amount)
  if amount ~= '0' then redis.call('HINCRBY', key, field, amount) end
end

local function decrease(key, field, amount)
  if amount == '0' then return end
  local minus = string.sub(amount, 1, 1) == '-' and string.sub(amount, 2) or '-' .. amount
  redis.call('HINCRBY', key, field, minus)
end

-- Adds money whose row may be in the sum that was loaded from the ledger. It counts if it is not: a row has a place, the name of a
-- journal and a position there, and a sum has the position up to which it includes each journal. If the sum is not loaded, the money
-- is stored for the next load, as a result may already be under way.
local function addPlaced(key, cost, place)
  local seeded = redis.call('HGET', key, 'seeded')
  if not seeded then
    increase(key, 'late:' .. place, cost)
    if redis.call('TTL', key) == -1 then redis.call('PEXPIRE', key, DAY) end
    return
  end
  local journal, position = string.match(place, '^(%S+) (%d+)$')
  if tonumber(position) > (cjson.decode(seeded)[journal] or 0) then increase(key, 'spent', cost) end
end

-- Parses a stored reservation: its time, and { maximum = { tokens, money }, minimum = { … }, levels = { { scope, rpm, tpm, tokens
-- reserved, concurrency, { { name of a sum, hard limit or '' }, … }, names of sums of soft budgets that could not be loaded }, … } }.
local function parseReservation(text)
  local at = string.find(text, '|', 1, true)
  return tonumber(string.sub(text, 1, at - 1)), cjson.decode(string.sub(text, at + 1))
end

-- Returns the sums of a level; two budgets of one kind of period are two limits on one sum.
local function sums(level)
  local names, seen = {}, {}
  for _, budget in ipairs(level[6]) do
    if not seen[budget[1]] then names[#names + 1] = budget[1] end
    seen[budget[1]] = true
  end
  return names
end

local function enter(scope)
  redis.call('INCR', P .. 'running:' .. scope)
  redis.call('PEXPIRE', P .. 'running:' .. scope, DAY)
end

local function leave(scope)
  if redis.call('DECR', P .. 'running:' .. scope) <= 0 then redis.call('DEL', P .. 'running:' .. scope) end
end

-- Adds the cost of an exchange that began before its scope had a budget of the period: a key's budgets may change meanwhile. The
-- sums in `reserved` are counted by their reservation.
local function chargeUnreserved(scope, reserved, time, cost, counted)
  local known = {}
  for _, name in ipairs(reserved) do known[name] = true end
  local all = redis.call('HGETALL', P .. 'sums:' .. scope)
  for i = 1, #all, 2 do
    local name = all[i] .. ':' .. all[i + 1] .. ':' .. scope
    local key = P .. 'spent:' .. name
    if not known[name] and time >= tonumber(all[i + 1]) and redis.call('HEXISTS', key, 'spent') == 1 then
      increase(key, 'spent', cost)
      decrease(key, 'spent', counted)
    end
  end
end

-- Counts usage at all levels of a reservation, instead of its worst case, or of `before`: { tokens, money, unused scope } that was
-- counted for it. A sum that is not loaded gets it from the ledger, or from here, if the place of its row is known. Returns the
-- money spent of each sum.
local function charge(time, reservation, tokens, cost, unused, before, place)
  local spent = {}
  for _, level in ipairs(reservation.levels) do
    local scope, t, c = level[1], tokens, cost
    if scope == unused then t, c = 0, '0' end
    local reserved, counted = level[4], '0'
    if before then reserved, counted = before[1], before[2] end
    if before and scope == before[3] then reserved, counted = 0, '0' end
    if level[3] > 0 then correct(P .. 'tpm:' .. scope, time, t - reserved) end
    for _, name in ipairs(sums(level)) do
      local key = P .. 'spent:' .. name
      local known = redis.call('HMGET', key, 'spent', 'pending')
      if known[2] and not before then
        decrease(key, 'pending', reservation.maximum[2])
        if string.sub(redis.call('HGET', key, 'pending'), 1, 1) == '-' then redis.call('HSET', key, 'pending', '0') end
      end
      if known[1] then
        increase(key, 'spent', c)
        decrease(key, 'spent', counted)
      elseif place and not before then
        addPlaced(key, c, place)
      end
      spent[#spent + 1] = redis.call('HGET', key, 'spent') or ''
    end
    for _, name in ipairs(place and not before and level[7] or {}) do
      local key = P .. 'spent:' .. name
      if redis.call('HEXISTS', key, 'spent') == 0 then addPlaced(key, c, place) end
    end
    chargeUnreserved(scope, sums(level), time, c, counted)
  end
  return spent
end

-- Replaces a removed reservation with the actual usage. Returns the money spent of each sum.
local function finish(text, tokens, cost, unused, place)
  local time, reservation = parseReservation(text)
  for _, level in ipairs(reservation.levels) do leave(level[1]) end
  return charge(time, reservation, tokens, cost, unused, nil, place)
end

-- Orphans: reservations whose owner was taken for dead, { died, text, before, once }; the latter two if something was counted: as for
-- `charge`, and the name under which it has counted once.
local ORPHANS, DUE = P .. 'orphans', P .. 'due'

-- Removes and returns an orphan: its owner has come back, and will count its usage itself.
local function reclaim(id)
  local text = redis.call('HGET', ORPHANS, id)
  redis.call('HDEL', ORPHANS, id)
  redis.call('ZREM', DUE, id)
  local orphan = text and cjson.decode(text)
  if orphan and orphan[4] then redis.call('DEL', P .. 'once:' .. orphan[4]) end
  return orphan
end

-- Reports whether a name is new, and remembers it for some milliseconds.
local function isNew(name, ttl)
  return redis.call('SET', P .. 'once:' .. name, 1, 'NX', 'PX', ttl) ~= false
end

-- Reports whether usage counts: without a name, or the first time that its name is reported. Vendors return responses generated in
-- the background for 31 days.
local function counts(once)
  return once == '' or isNew(once, 31 * DAY)
end
