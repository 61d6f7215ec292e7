-- Adds money spent without a hold here. ARGV[3]: name of this batch, then of each: the name of a sum, money, and the place of its
-- row (see `owed`).
if not first('pay ' .. ARGV[3]) then return {} end
for i = 4, #ARGV, 3 do owed(P .. 'spent:' .. ARGV[i], ARGV[i + 1], ARGV[i + 2]) end
return {}
