-- ARGV[3…]: names of sums. Returns their state.
local reply = {}
for i = 3, #ARGV do
  local known = redis.call('HMGET', P .. 'spent:' .. ARGV[i], 'spent', 'pending', 'was')
  reply[#reply + 1] = known[1] or known[3] or '0'
  reply[#reply + 1] = known[2] or '0'
end
return reply
