-- The work has cost more than was reserved: correct() is charge.lua with `count: all` for every limit, which
-- takes the difference whatever is left. The claim comes last: if the script fails half-way, the next call
-- takes the difference again, and no unit that was spent is lost.

local answer = correct()
-- An error: a state cannot be read.
if type(answer) == 'table' then return answer end
redis.call('SET', claim, cost, 'PX', kept_for)
return '+' .. cost
