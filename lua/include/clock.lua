-- The time of a decision in ms: what a test hands in, else that of the store itself (one clock for all processes).
local function clock(given)
  if given > 0 then return given end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
