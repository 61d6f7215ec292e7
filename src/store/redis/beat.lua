-- ARGV[3]: owner, [4]: milliseconds that it lives without another heartbeat, 0: it leaves, [5]: maximum number of holds to end.
-- Keys belong to one epoch of the server: a server that was restarted or replaced another one begins empty, regardless of its
-- stored data; gateways then send their running holds, and the ledger the money spent.
local owner, life, most = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local about = redis.pcall('INFO', 'server')
local run = type(about) == 'string' and string.match(about, 'run_id:(%w+)') or '0'
local epoch = string.sub(run, 1, 12)
P = P .. epoch .. ':'
local owners = P .. 'owners'
local known = redis.call('ZSCORE', owners, owner)
redis.call('ZADD', owners, now + life, owner)
redis.call('PEXPIRE', owners, DAY)
redis.call('PEXPIRE', P .. 'holds:' .. owner, DAY)

-- Holds of dead owners end with their least charge.
local ended = 0
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', owners, '-inf', now)) do
  local holds, marks = P .. 'holds:' .. dead, P .. 'ended:' .. dead
  while ended < most and redis.call('EXISTS', holds) == 1 do
    local some = redis.call('HSCAN', holds, 0, 'COUNT', 100)[2]
    for i = 1, #some, 2 do
      local _, hold = unpacked(some[i + 1])
      finish(some[i + 1], hold.least[1], hold.least[2], '')
      redis.call('HDEL', holds, some[i])
      -- Its owner may only have been unreachable: then it comes back and reports the charge.
      redis.call('HSET', marks, some[i], 1)
      ended = ended + 1
    end
    redis.call('PEXPIRE', marks, DAY)
  end
  if redis.call('EXISTS', holds) == 0 then redis.call('ZREM', owners, dead) end
end
local alive = redis.call('ZCOUNT', owners, '(' .. whole(now), '+inf')
return { epoch, known and 1 or 0, alive, ended }
