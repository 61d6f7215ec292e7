-- ARGV[3…]: names of sums that a process uses. Returns the name and state of each, and of others that other processes use, which may
-- need what is left of them when the server is lost: those that came into use last.
local USED, USED_FOR, OTHERS = P .. 'used', 600000, 500
local reply = {}
local function add(name)
  local known = redis.call('HMGET', P .. 'spent:' .. name, 'spent', 'pending', 'was')
  reply[#reply + 1] = name
  reply[#reply + 1] = known[1] or known[3] or '0'
  reply[#reply + 1] = known[2] or '0'
end
local own = {}
for i = 3, #ARGV do own[ARGV[i]] = true end
redis.call('ZREMRANGEBYSCORE', USED, '-inf', whole(now - USED_FOR))
for _, name in ipairs(redis.call('ZREVRANGE', USED, 0, #ARGV - 3 + OTHERS)) do
  if not own[name] then add(name) end
end
for i = 3, #ARGV do
  redis.call('ZADD', USED, whole(now), ARGV[i])
  add(ARGV[i])
end
redis.call('PEXPIRE', USED, USED_FOR)
return reply
