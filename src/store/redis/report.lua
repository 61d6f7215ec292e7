-- Counts exchanges that have reserved nothing. ARGV[3]: name of this batch (see pay.lua), then of each: money, the name under which it
-- counts once, when it began, and its scopes, after their number.
if not isNew('pay ' .. ARGV[3], HOUR) then return {} end
local i = 4
while i <= #ARGV do
  local cost, once, time, scopes = unpack(ARGV, i, i + 3)
  i = i + 4
  if counts(once) then
    for at = i, i + scopes - 1 do chargeUnreserved(ARGV[at], {}, tonumber(time), cost, '0') end
  end
  i = i + scopes
end
return {}
