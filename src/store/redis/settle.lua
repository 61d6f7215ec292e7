-- ARGV[3]: owner, [4]: id, [5]: tokens, [6]: money, [7]: the scope at which nothing was used, [8]: the name under which it counts once.
local key, id = P .. 'holds:' .. ARGV[3], ARGV[4]
local text = redis.call('HGET', key, id)
if not text then return false end
redis.call('HDEL', key, id)
local tokens, cost = tonumber(ARGV[5]), ARGV[6]
if not first(ARGV[8]) then tokens, cost = 0, '0' end
return finish(text, tokens, cost, ARGV[7])
