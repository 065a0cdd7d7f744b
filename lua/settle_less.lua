-- The work has cost less than was reserved, or as much: correct() is give_back.lua. The claim comes first: if
-- the script fails half-way, some units stay taken, and no unit is given back twice.

redis.call('SET', claim, cost, 'PX', kept_for)
if #KEYS > 0 then correct() end
return '+' .. cost
