-- ARGV[3]: owner, [4]: id, [5]: tokens, [6]: money, [7]: the scope at which nothing was used, [8]: the name under which it counts
-- once, [9]: the place of its row (see `addPlaced`), [10]: a name under which the following is paid once (see pay.lua), [11]: when
-- the exchange began, [12…]: scopes at which nothing was reserved. Returns whether it counts, and the money spent of each sum.
local key, id = P .. 'reservations:' .. ARGV[3], ARGV[4]
local text = redis.call('HGET', key, id)
if not text then return false end
redis.call('HDEL', key, id)
local tokens, cost = tonumber(ARGV[5]), ARGV[6]
local counted = counts(ARGV[8])
if not counted then tokens, cost = 0, '0' end
if ARGV[10] and isNew('pay ' .. ARGV[10], HOUR) then
  for i = 12, #ARGV do chargeUnreserved(ARGV[i], {}, tonumber(ARGV[11]), cost, '0') end
end
return { counted and 1 or 0, unpack(finish(text, tokens, cost, ARGV[7], ARGV[9])) }
