-- Loads the ledger's sums. ARGV[3…]: of each sum its name, money, the positions up to which it includes the journals, as JSON, and
-- milliseconds to keep it. Of a sum that was set aside (see recheck.lua), what is more counts: rows of a dead process may be in neither.
for i = 3, #ARGV, 4 do
  local key = P .. 'spent:' .. ARGV[i]
  local spent, included = ARGV[i + 1], ARGV[i + 2]
  local aside = redis.call('HMGET', key, 'was', 'included')
  if aside[1] and exceeds(spent, aside[1]) then spent, included = aside[1], aside[2] end
  if redis.call('HSETNX', key, 'spent', spent) == 1 then
    redis.call('HSET', key, 'seeded', included)
    redis.call('HDEL', key, 'was', 'included')
    local fields = redis.call('HGETALL', key)
    for f = 1, #fields, 2 do
      local place = string.match(fields[f], '^late:(.+)$')
      if place then
        redis.call('HDEL', key, fields[f])
        addPlaced(key, fields[f + 1], place)
      end
    end
    redis.call('PEXPIRE', key, ARGV[i + 3])
    -- The sums of a scope, one for each kind of period.
    local per, start, scope = string.match(ARGV[i], '^(%a+):(%d+):(.*)$')
    redis.call('HSET', P .. 'sums:' .. scope, per, start)
    redis.call('PEXPIRE', P .. 'sums:' .. scope, 35 * DAY)
  end
end
return {}
