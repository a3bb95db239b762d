-- Runs once in each state, before a function: makes the environment that each call gets anew.
--
-- What the C libraries do in a loop that nothing interrupts is done here, where instructions are counted: `table.move`
-- of 1e15 elements, `table.insert` into a table whose `__len` says so, `string.rep` of the empty string. What the
-- function gets is a copy, so that no call sees what another one changed.
local patterns = ...
local base, libraries = {}, { string = {}, table = {}, math = {}, utf8 = {} }
for _, name in ipairs { "assert", "error", "getmetatable", "ipairs", "next", "pairs", "rawequal", "rawget", "rawlen",
  "rawset", "select", "tonumber", "tostring", "type", "_VERSION" } do
  base[name] = _G[name]
end
for name, library in next, libraries do
  for key, value in next, _G[name] do library[key] = value end
end
libraries.string.dump = nil
libraries.math.random, libraries.math.randomseed = nil, nil
for name, matcher in next, patterns do libraries.string[name] = matcher end

local error, type, rawlen, rawget, select, next = error, type, rawlen, rawget, select, next
local setmetatable, concat, unpack = setmetatable, table.concat, table.unpack
local rep, tointeger, tostring = string.rep, math.tointeger, tostring

-- A finalizer would run where no instruction is counted.
function base.setmetatable(value, metatable)
  if type(metatable) == "table" and rawget(metatable, "__gc") ~= nil then
    error("a metatable with __gc is not supported", 2)
  end
  return setmetatable(value, metatable)
end

local function is_table(value, number, name)
  if type(value) ~= "table" then
    error("bad argument #" .. number .. " to '" .. name .. "' (table expected, got " .. type(value) .. ")", 3)
  end
end

local function integer(value, number, name)
  local whole = tointeger(value)
  if not whole then
    error("bad argument #" .. number .. " to '" .. name .. "' (number expected, got " .. type(value) .. ")", 3)
  end
  return whole
end

function libraries.string.rep(text, times, separator)
  times = integer(times, 2, "rep")
  separator = separator == nil and "" or tostring(separator)
  text = tostring(text)
  if times <= 0 or #text + #separator == 0 then return "" end
  return rep(text, times, separator)
end

local T = libraries.table

function T.insert(list, ...)
  is_table(list, 1, "insert")
  local count, size = select("#", ...), #list
  if count == 1 then
    list[size + 1] = (...)
  elseif count == 2 then
    local at, value = ...
    at = integer(at, 2, "insert")
    if at < 1 or at > size + 1 then error("bad argument #2 to 'insert' (position out of bounds)", 2) end
    for i = size, at, -1 do list[i + 1] = list[i] end
    list[at] = value
  else
    error("wrong number of arguments to 'insert'", 2)
  end
end

function T.remove(list, at)
  is_table(list, 1, "remove")
  local size = #list
  if at == nil then at = size else
    at = integer(at, 2, "remove")
    if size + 1 ~= at and (at < 1 or at > size + 1) and not (size == 0 and at == 0) then
      error("bad argument #2 to 'remove' (position out of bounds)", 2)
    end
  end
  local value = list[at]
  while at < size do
    list[at] = list[at + 1]
    at = at + 1
  end
  list[at] = nil
  return value
end

function T.move(from, first, last, at, to)
  is_table(from, 1, "move")
  to = to == nil and from or to
  is_table(to, 5, "move")
  first, last, at = integer(first, 2, "move"), integer(last, 3, "move"), integer(at, 4, "move")
  if last >= first then
    if at > last or at <= first or to ~= from then
      for i = 0, last - first do to[at + i] = from[first + i] end
    else
      for i = last - first, 0, -1 do to[at + i] = from[first + i] end
    end
  end
  return to
end

function T.concat(list, separator, first, last)
  is_table(list, 1, "concat")
  first = first == nil and 1 or integer(first, 3, "concat")
  last = last == nil and #list or integer(last, 4, "concat")
  if last - first >= rawlen(list) or last < first and first - last < 0 then
    -- Elements that are not there, or come from a metatable: one by one.
    local all = ""
    for i = first, last do
      all = all .. list[i] .. (i < last and separator or "")
    end
    return all
  end
  return concat(list, separator, first, last)
end

function T.unpack(list, first, last)
  first = first == nil and 1 or integer(first, 2, "unpack")
  last = last == nil and #list or integer(last, 3, "unpack")
  if last >= first and (last - first < 0 or last - first >= 100000) then error("too many results to unpack", 2) end
  return unpack(list, first, last)
end

local function sift(list, at, size, less)
  local value = list[at]
  while true do
    local child = 2 * at
    if child > size then break end
    if child < size and less(list[child], list[child + 1]) then child = child + 1 end
    if not less(value, list[child]) then break end
    list[at] = list[child]
    at = child
  end
  list[at] = value
end

function T.sort(list, less)
  is_table(list, 1, "sort")
  less = less or function(a, b) return a < b end
  local size = #list
  for at = size // 2, 1, -1 do sift(list, at, size, less) end
  for last = size, 2, -1 do
    list[1], list[last] = list[last], list[1]
    sift(list, 1, last - 1, less)
  end
end

-- Methods of texts are those of a copy that no function can reach.
local methods = {}
for key, value in next, libraries.string do methods[key] = value end
local of_texts = getmetatable("")
of_texts.__index = methods
of_texts.__metatable = false

return function()
  local environment = {}
  for name, value in next, base do environment[name] = value end
  for name, library in next, libraries do
    local copy = {}
    for key, value in next, library do copy[key] = value end
    environment[name] = copy
  end
  environment._G = environment
  return environment
end
