-- Adds money spent without a reservation here. ARGV[3]: name of this batch, then of each: the name of a sum, money, and the place
-- of its row (see `addPlaced`).
if not isNew('pay ' .. ARGV[3], HOUR) then return {} end
for i = 4, #ARGV, 3 do addPlaced(P .. 'spent:' .. ARGV[i], ARGV[i + 1], ARGV[i + 2]) end
return {}
