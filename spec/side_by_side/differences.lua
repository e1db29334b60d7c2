-- The intended differences from ngx.shared.DICT, each with its reason. docs/resty.shdict.md lists them for users. A
-- rule tells whether it explains a case. A case has `state`, `call` and, for both sides, `results`, of which the first
-- is "raised" or "returned", and `content`, the content of the dictionary after the call.

local LISTS = { lpush = true, rpush = true, lpop = true, rpop = true, llen = true }
local COUNTS = { get_keys = true, flush_expired = true }

local rules = {}


local function rule(reason, explains)
    rules[#rules + 1] = { reason = reason, explains = explains, count = 0 }
end


local function raised(side, pattern)
    return side.results[1] == "raised" and (not pattern or side.results[2]:find(pattern) ~= nil)
end


local function returned(side)
    return side.results[1] == "returned"
end


local function has_meaning(key)
    local kind = type(key)
    local metatable = getmetatable(key)
    return not (kind == "function" or kind == "thread"
                or kind == "table" and not (metatable and metatable.__tostring))
end


rule("where the original lets Lua raise the error, our error says what is accepted", function (case)
    return raised(case.ours, '^bad "%a') and raised(case.theirs)
        and case.theirs.results[2]:find("^attempt to ") ~= nil
        or raised(case.ours, "^bad ") and raised(case.theirs, "cannot convert")
        or raised(case.ours, '^bad "%a') and raised(case.theirs, "^bad argument #%d")
        or raised(case.ours, '^bad "zone"') and raised(case.theirs, "^bad user data")
end)

rule("keys without a meaning outside their process are refused", function (case)
    return not has_meaning(case.call[1]) and case.ours.results[2] == nil and case.ours.results[3] == "bad key type"
end)

rule("lists take the keys that values take", function (case)
    local key = case.call[1]
    return LISTS[case.call.method] and raised(case.theirs, "^bad argument #2 ") and returned(case.ours)
        and type(key) ~= "string" and type(key) ~= "number"
end)

rule("flags come back without a sign", function (case)
    local flags = case.call[4]
    return type(flags) == "number" and (flags ~= flags or flags < 0 or flags >= 2 ^ 31) and returned(case.ours)
        and returned(case.theirs) and case.ours.content ~= case.theirs.content
end)

rule("max_count may be nil", function (case)
    return COUNTS[case.call.method] and case.call.n == 1 and case.call[1] == nil and returned(case.ours)
        and raised(case.theirs, "number expected, got nil")
end)

rule("methods do not count their arguments", function (case)
    return returned(case.ours) and raised(case.theirs, "^expecting ")
end)

rule("flush_all returns true", function (case)
    return case.call.method == "flush_all" and returned(case.ours) and case.ours.results[2] == true
        and case.theirs.results.n == 1
end)

rule("free_space counts bytes, not free pages", function (case)
    return case.call.method == "free_space" and returned(case.ours) and returned(case.theirs)
        and case.ours.content == case.theirs.content
end)

rule("get_keys gives keys in no order", function (case)
    return case.state == "forty keys" and case.call.method == "get_keys" and returned(case.ours)
        and #case.ours.results[2] == #case.theirs.results[2]
end)

rule("flush_all frees nothing yet; the original frees up to three entries", function (case)
    return case.state == "what was flushed"
        and (case.call.method == "get_stale" and case.ours.results[4] == true
             or case.call.method == "flush_expired" and case.ours.results[2] == 1)
end)

rule("expire does not bring back what has expired", function (case)
    return case.state:find("expired") and case.call.method == "expire" and case.ours.results[3] == "not found"
        and case.theirs.results[2] == true
end)

return rules
