-- Gateways that have counted apart begin to count here at the same moment: what one of them has reserved meanwhile is not known here before.
-- ARGV[3]: owner, [4]: milliseconds for which the first of them waits for others; 0: it has not counted apart, and waits only if
-- others do; empty: it has begun. Returns the milliseconds until all begin, or the number of those that have not begun yet.
local waiting = P .. 'waiting'
local owner, most = ARGV[3], tonumber(ARGV[4])
if not most then
  redis.call('SREM', waiting, owner)
  return { redis.call('SCARD', waiting) }
end
-- They begin a moment before it expires.
local MOMENT = 500
if most == 0 and redis.call('PTTL', waiting) <= MOMENT then return { 0 } end
redis.call('SADD', waiting, owner)
if redis.call('PTTL', waiting) < 0 then redis.call('PEXPIRE', waiting, most + MOMENT) end
return { math.max(0, redis.call('PTTL', waiting) - MOMENT) }
