-- A stream that breaks goes on at another replica: HAProxy's service for POST /v1/completions and
-- /v1/chat/completions (haproxy.cfg). The client sees one stream, with the bytes that a replica
-- which nothing happened to would have sent: answers are the same everywhere.
--
-- With the header X-Resume-Tokens a replica writes comments between the frames, which stay here: who
-- answers with which seed, and the tokens so far. When it is gone, or ends its stream because it
-- shuts down, the next one gets the same body with `resume`, and its frames have the numbers that
-- they would have had; those that the client has are left out.
--
-- What cannot be gone on with (several choices) ends with an error, unless nothing was sent yet.

local BACKEND = "quire"   -- whose servers are the replicas
local PATIENCE = 20       -- seconds without any replica that answers
local SILENCE = 60        -- seconds without a byte (replicas send pings, stream_ping_ms)
local turn = 0

-- The replica that comes next and is up, but `last` if there is another one.
local function pick(last)
    local up, others = {}, {}
    for name, server in pairs(core.backends[BACKEND].servers) do
        if server:get_stats()["status"]:find("^UP") then
            up[#up + 1] = name
            if name ~= last then others[#others + 1] = name end
        end
    end
    if #others > 0 then up = others end
    table.sort(up)
    turn = turn + 1
    local name = up[turn % math.max(#up, 1) + 1]
    return name, name and core.backends[BACKEND].servers[name]:get_addr()
end

-- HTTP/1.0: the answer comes without chunks, and ends with its connection.
local KEEP = {authorization = 1, ["x-api-key"] = 1, ["content-type"] = 1, ["x-request-id"] = 1, ["x-priority"] = 1,
              ["x-tenant"] = 1, host = 1}

local function ask(applet, address, body)
    local host, port = address:match("^(.*):(%d+)$")
    local socket = core.tcp()
    socket:settimeout(SILENCE)
    if not socket:connect(host, tonumber(port)) then return nil end
    local head = {"POST " .. applet.path .. " HTTP/1.0", "Connection: close", "X-Resume-Tokens: true",
                  "Content-Length: " .. #body}
    for name, values in pairs(applet.headers) do
        if KEEP[name] then head[#head + 1] = name .. ": " .. values[0] end
    end
    if not socket:send(table.concat(head, "\r\n") .. "\r\n\r\n" .. body) then return nil end
    local line = socket:receive("*l")
    local answer = {socket = socket, status = tonumber((line or ""):match("^HTTP/1.%d (%d+)")), headers = {}}
    while answer.status do
        line = socket:receive("*l")
        if line == nil then return nil end
        if line == "" then return answer end
        local name, value = line:match("^([^:]+): ?(.*)$")
        if name then answer.headers[name:lower()] = value end
    end
end

local DROPPED = {connection = 1, date = 1, ["transfer-encoding"] = 1, ["content-length"] = 1, ["x-seed"] = 1}

local function start(applet, answer, length)
    applet:set_status(answer.status)
    for name, value in pairs(answer.headers) do
        if not DROPPED[name] then applet:add_header(name, value) end
    end
    if length then applet:add_header("content-length", tostring(length)) end
    applet:start_response()
end

-- One event: its lines for the client, and what the others say. nil: the stream is broken.
local function read_event(socket)
    local event = {}
    while true do
        local line = socket:receive("*l")
        if line == nil then return nil end
        if line == "" then return event end
        local kind, value = line:match("^(:? ?%a+):? (.*)$")
        if kind == "id" then event.id = tonumber(value)
        elseif kind == ": tokens" then event.tokens = value
        elseif kind == ": resume" then event.resume = value
        else event[#event + 1] = line end
    end
end

-- Hand frames on as long as they come. true: the client has all of them.
local function stream(applet, socket, state)
    while true do
        local event = read_event(socket)
        if event == nil then return false end
        local text = table.concat(event, "\n")
        if text:find('"code":"resumable"', 1, true) and text:find('^data: {"error"') then return false end
        if event.resume then state.resume = event.resume:sub(1, -2) end
        if event.id == nil or event.id > state.sent then applet:send(text .. "\n\n") end
        if event.id then state.sent = math.max(state.sent, event.id) end
        if event.tokens then state.tokens[#state.tokens + 1] = event.tokens end
        if text == "data: [DONE]" then return true end
    end
end

local function body_of(body, state)
    if state.sent < 0 then return body end
    return (body:gsub("^%s*{", function()
        return '{"resume":' .. state.resume .. ',"tokens":[' .. table.concat(state.tokens, ",") .. "]},"
    end))
end

local function fail(applet, state, message)
    local text = '{"error":{"message":"' .. message .. '","type":"unavailable_error","param":null,"code":null}}'
    if state.started then
        applet:send("data: " .. text .. "\n\ndata: [DONE]\n\n")
        return
    end
    start(applet, {status = 503, headers = {["content-type"] = "application/json", ["retry-after"] = "1"}}, #text)
    applet:send(text)
end

core.register_service("quire", "http", function(applet)
    local body, state = applet:receive(), {sent = -1, tokens = {}}
    local since, last = core.now().sec, nil
    while core.now().sec - since < PATIENCE do
        local name, address = pick(last)
        local answer = address and ask(applet, address, body_of(body, state))
        last = name
        if answer and answer.status == 200 and (answer.headers["content-type"] or ""):find("event%-stream") then
            if not state.started then start(applet, answer) end
            state.started = true
            if stream(applet, answer.socket, state) then return end
            since = core.now().sec
            if state.sent >= 0 and not state.resume then break end
        elseif answer and answer.status ~= 503 and not state.started then
            local whole = answer.socket:receive("*a")
            if whole and #whole == tonumber(answer.headers["content-length"]) then
                start(applet, answer, #whole)
                applet:send(whole)
                return
            end
        else
            core.msleep(100)
        end
        if answer then answer.socket:close() end
    end
    fail(applet, state, state.started and "the replica is gone" or "no replica answers")
end)
