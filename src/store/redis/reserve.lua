-- ARGV[3]: owner, [4]: id, [5]: the reservation as JSON. Everything is checked before anything is written.
local owner, id = ARGV[3], ARGV[4]
if not redis.call('ZSCORE', P .. 'owners', owner) then return { 'owner' } end
local reservation = cjson.decode(ARGV[5])
local tokens, cost = reservation.maximum[1], reservation.maximum[2]
local state, missing = {}, { 'missing' }
for _, level in ipairs(reservation.levels) do
  for _, name in ipairs(sums(level)) do
    local known = redis.call('HMGET', P .. 'spent:' .. name, 'spent', 'pending')
    state[name] = { known[1], known[2] or '0' }
    if not known[1] then missing[#missing + 1] = name end
  end
end
if #missing > 1 then return missing end

for i, level in ipairs(reservation.levels) do
  local scope, rpm, tpm, asked, concurrency, budgets = unpack(level)
  if concurrency > 0 and tonumber(redis.call('GET', P .. 'running:' .. scope) or 0) >= concurrency then
    return { 'excess', i - 1, 'concurrency' }
  end
  if rpm > 0 and advance(P .. 'rpm:' .. scope) >= rpm then
    return { 'excess', i - 1, 'rpm', wait(P .. 'rpm:' .. scope, 1, rpm) }
  end
  if tpm > 0 and tokens > 0 then
    local sum = advance(P .. 'tpm:' .. scope)
    if sum + asked > tpm then return { 'excess', i - 1, 'tpm', sum, wait(P .. 'tpm:' .. scope, asked, tpm) } end
  end
  if cost ~= '0' then
    for b, budget in ipairs(budgets) do
      local spent, pending = unpack(state[budget[1]])
      if budget[2] ~= '' and exceeds(budget[2], spent, pending, cost) then
        return { 'excess', i - 1, 'budget', b - 1, spent, pending }
      end
    end
  end
end

local reply = { 'ok', now, redis.call('ZCARD', P .. 'owners') }
local function add(value) reply[#reply + 1] = value end
for _, level in ipairs(reservation.levels) do
  local scope, rpm, tpm, asked = unpack(level)
  enter(scope)
  local sum, reset = 0, 0
  if rpm > 0 then sum, reset = correct(P .. 'rpm:' .. scope, now, 1) end
  add(sum)
  add(reset)
  sum, reset = 0, 0
  if tpm > 0 then sum, reset = correct(P .. 'tpm:' .. scope, now, asked) end
  add(sum)
  add(reset)
  for _, name in ipairs(sums(level)) do
    local key = P .. 'spent:' .. name
    increase(key, 'pending', cost)
    -- A sum without a period has no end after which it could expire.
    if string.sub(name, 1, 6) == 'total:' then redis.call('PEXPIRE', key, 7 * DAY) end
    add(state[name][1])
    add(state[name][2])
  end
end
redis.call('HSET', P .. 'reservations:' .. owner, id, whole(now) .. '|' .. ARGV[5])
return reply
