-- Runs once in each state, before a function: makes the environment that each call gets anew.
--
-- What the C libraries do in a loop that nothing interrupts is done here, where instructions are counted: `table.move`
-- of 1e15 elements, `table.insert` into a table whose `__len` says so, `string.rep` of the empty string. C sees a table
-- only if it has no metatable: one step through `__index` may take 2,000 others. What would show an address, which is
-- another one in each run, shows none. What the function gets is a copy, so that no call sees what another one changed.
local native = ...
local base, libraries = {}, { string = {}, table = {}, math = {}, utf8 = {} }
for _, name in ipairs { "getmetatable", "ipairs", "next", "pairs", "rawequal", "rawget", "rawlen", "rawset", "select",
  "tonumber", "type", "_VERSION" } do
  base[name] = _G[name]
end
for name, library in next, libraries do
  for key, value in next, _G[name] do library[key] = value end
end
libraries.string.dump = nil
libraries.math.random, libraries.math.randomseed = nil, nil

local error, type, rawget, select, next = error, type, rawget, select, next
local getmetatable = getmetatable
local concat, pack, unpack = table.concat, table.pack, table.unpack
local format, rep, sub, tointeger, tostring = string.format, string.rep, string.sub, math.tointeger, tostring
local find, match, next_match, substitute = native.find, native.match, native.next_match, native.substitute
local attach, has_text, check_format = native.attach, native.has_text, native.check_format

local function shown(value)
  local kind = type(value)
  if kind == "function" or kind == "table" and not has_text(value) then return kind end
  return tostring(value)
end

base.tostring = shown

-- An error is a text: another value would be made one where no instruction is counted.
local function thrown(message, level)
  if type(message) ~= "string" then
    level, message = 0, message == nil and "nil" or shown(message)
  end
  error(message, level)
end

function base.error(message, level)
  thrown(message, (level == nil or level == 1) and 3 or level == 2 and 4 or 0)
end

function base.assert(value, ...)
  if value then return value, ... end
  if select("#", ...) == 0 then error("assertion failed!", 0) end
  thrown((...), 0)
end

-- What a metatable may have. Handlers of the others run where no instruction is counted (`__gc`, `__close`), or make the
-- collector's work long and its time visible (`__mode`).
local events = { "__index", "__newindex", "__call", "__add", "__sub", "__mul", "__div", "__mod", "__pow", "__unm",
  "__idiv", "__band", "__bor", "__bxor", "__bnot", "__shl", "__shr", "__concat", "__len", "__eq", "__lt", "__le",
  "__tostring", "__pairs" }
local refused = { "__gc", "__close", "__mode" }

-- A table gets a copy, which nothing reaches: what is added to the metatable later is not in it.
function base.setmetatable(value, metatable)
  if type(value) ~= "table" then
    error("bad argument #1 to 'setmetatable' (table expected, got " .. type(value) .. ")", 2)
  end
  if metatable == nil then
    attach(value)
    return value
  end
  if type(metatable) ~= "table" then error("bad argument #2 to 'setmetatable' (nil or table expected)", 2) end
  for i = 1, #refused do
    if rawget(metatable, refused[i]) ~= nil then
      error("a metatable with " .. refused[i] .. " is not supported", 2)
    end
  end
  local copy = {}
  for i = 1, #events do
    local event = events[i]
    copy[event] = rawget(metatable, event)
  end
  local shown_as = rawget(metatable, "__metatable")
  copy.__metatable = shown_as == nil and metatable or shown_as
  copy.is_protected = shown_as ~= nil
  attach(value, copy)
  return value
end

local function wrong(number, name, expected, value)
  error("bad argument #" .. number .. " to '" .. name .. "' (" .. expected .. " expected, got " .. type(value) .. ")", 4)
end

local function is_table(value, number, name)
  if type(value) ~= "table" then wrong(number, name, "table", value) end
end

local function integer(value, number, name)
  local whole = tointeger(value)
  if not whole then wrong(number, name, "number", value) end
  return whole
end

local function text_of(value, number, name)
  local kind = type(value)
  if kind == "string" then return value end
  if kind ~= "number" then wrong(number, name, "string", value) end
  return tostring(value)
end

local S = libraries.string

-- Of its arguments, however many there are, C gets those that it takes.
function S.find(text, pattern, init, plain) return find(text, pattern, init, plain) end
function S.match(text, pattern, init) return match(text, pattern, init) end

function S.rep(text, times, separator)
  text = text_of(text, 1, "rep")
  times = integer(times, 2, "rep")
  separator = separator == nil and "" or text_of(separator, 3, "rep")
  if times <= 0 or #text + #separator == 0 then return "" end
  return rep(text, times, separator)
end

function S.format(form, ...)
  form = text_of(form, 1, "format")
  check_format(form)
  local values = pack(...)
  for i = 1, values.n do
    local kind = type(values[i])
    if kind == "table" or kind == "function" then values[i] = shown(values[i]) end
  end
  return format(form, unpack(values, 1, values.n))
end

function S.gmatch(text, pattern, init)
  text, pattern = text_of(text, 1, "gmatch"), text_of(pattern, 2, "gmatch")
  local at, last = init == nil and 1 or integer(init, 3, "gmatch"), nil
  if at < 0 then at = #text + at + 1 end
  at = at < 1 and 0 or at - 1
  if at > #text then at = nil end
  -- Here it is a byte as any other.
  if sub(pattern, 1, 1) == "^" then pattern = "%" .. pattern end
  local function taken(from, to, ...)
    at, last = to, to
    if from then return ... end
    return nil
  end
  return function()
    if at then return taken(next_match(text, pattern, at, last)) end
    return nil
  end
end

local function is_replacement(with)
  local kind = type(with)
  if kind ~= "table" and kind ~= "function" then wrong(3, "gsub", "string/function/table", with) end
end

function S.gsub(text, pattern, with, most)
  text, pattern = text_of(text, 1, "gsub"), text_of(pattern, 2, "gsub")
  most = most ~= nil and integer(most, 4, "gsub") or nil
  local kind = type(with)
  if kind == "string" or kind == "number" then return substitute(text, pattern, tostring(with), most) end
  is_replacement(with)
  local anchored = sub(pattern, 1, 1) == "^"
  local parts, size, count, kept, at, last = {}, 0, 0, 1, 0, nil
  while not most or count < most do
    local found = pack(next_match(text, pattern, at, last))
    local from, to, made = found[1], found[2], nil
    if not from then break end
    if kind == "table" then made = with[found[3]] else made = with(unpack(found, 3, found.n)) end
    if made then
      local what = type(made)
      if what ~= "string" and what ~= "number" then error("invalid replacement value (a " .. what .. ")", 2) end
      parts[size + 1], parts[size + 2] = sub(text, kept, from), made
      size, kept = size + 2, to + 1
    end
    count, at, last = count + 1, to, to
    if anchored then break end
  end
  parts[size + 1] = sub(text, kept)
  return concat(parts), count
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

-- The elements of a table between two places as those of one that C may see.
local function plain(list, first, last, check)
  if getmetatable(list) == nil then return list, first, last end
  local copy, size = {}, 0
  for i = first, last do
    size = size + 1
    copy[size] = list[i]
    if check then check(copy[size], i) end
  end
  return copy, 1, size
end

local function check_text(value, at)
  local kind = type(value)
  if kind ~= "string" and kind ~= "number" then
    error("invalid value (at index " .. at .. ") in table for 'concat'", 4)
  end
end

function T.concat(list, separator, first, last)
  is_table(list, 1, "concat")
  separator = separator == nil and "" or text_of(separator, 2, "concat")
  first = first == nil and 1 or integer(first, 3, "concat")
  last = last == nil and #list or integer(last, 4, "concat")
  list, first, last = plain(list, first, last, check_text)
  return concat(list, separator, first, last)
end

function T.unpack(list, first, last)
  is_table(list, 1, "unpack")
  first = first == nil and 1 or integer(first, 2, "unpack")
  last = last == nil and #list or integer(last, 3, "unpack")
  if last >= first and (last - first < 0 or last - first >= 100000) then error("too many results to unpack", 2) end
  list, first, last = plain(list, first, last)
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

local function counted(...)
  return select("#", ...), (...)
end

-- However many values a body gives, two leave the state.
local function run(chunk, ...)
  return counted(chunk(...))
end

local function environment()
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

return environment, run
