-- ARGV[3]: owner, [4]: id (empty: nothing was reserved), [5]: tokens, [6]: money, [7]: the scope at which nothing was used, [8]: the
-- name under which it counts once, [9]: a name under which the following is paid once (see pay.lua), [10]: when the exchange began,
-- [11…]: scopes at which nothing was reserved.
local key, id = P .. 'holds:' .. ARGV[3], ARGV[4]
local text = redis.call('HGET', key, id)
if not text and id ~= '' then return false end
redis.call('HDEL', key, id)
local tokens, cost = tonumber(ARGV[5]), ARGV[6]
if not first(ARGV[8]) then tokens, cost = 0, '0' end
if ARGV[9] and first('pay ' .. ARGV[9]) then
  for i = 11, #ARGV do unreserved({ ARGV[i], 0, 0, 0, 0, {} }, tonumber(ARGV[10]), cost, '0') end
end
if not text then return {} end
return finish(text, tokens, cost, ARGV[7])
