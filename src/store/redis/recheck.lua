-- Sets aside the money spent of a part of all sums, so that the next use of each loads it from the ledger: while no process counted here,
-- others may have counted elsewhere, or apart. ARGV[3]: where to go on, '0' at the beginning. Returns where to go on, '0' at the end.
local found = redis.call('SCAN', ARGV[3], 'MATCH', P .. 'spent:*', 'COUNT', 500)
for _, key in ipairs(found[2]) do
  local known = redis.call('HMGET', key, 'spent', 'seeded')
  if known[1] then
    redis.call('HSET', key, 'was', known[1], 'included', known[2] or '{}')
    redis.call('HDEL', key, 'spent', 'seeded')
  end
end
return { found[1] }
