-- What was spent without being reserved here. ARGV[3]: names these, then of each: the name of a sum, money, and when.
if not first('pay ' .. ARGV[3]) then return {} end
for i = 4, #ARGV, 3 do
  local key = P .. 'spent:' .. ARGV[i]
  local seeded = redis.call('HGET', key, 'seeded')
  -- The ledger has told what was spent before it was asked.
  if seeded and tonumber(ARGV[i + 2]) > tonumber(seeded) then increase(key, 'spent', ARGV[i + 1]) end
end
return {}
