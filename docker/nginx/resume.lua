-- A stream that breaks goes on at another replica: nginx's content handler for POST /v1/completions
-- and /v1/chat/completions (nginx.conf). The client sees one stream, with the bytes that a replica
-- which nothing happened to would have sent: answers are the same everywhere.
--
-- With the header X-Resume-Tokens a replica writes comments between the frames, which stay here: who
-- answers with which seed, and the tokens so far. When it is gone, or ends its stream because it
-- shuts down, the next one gets the same body with `resume`, and its frames have the numbers that
-- they would have had; those that the client has are left out.
--
-- What cannot be gone on with (several choices) ends with an error, unless nothing was sent yet.

local PATIENCE = 20   -- seconds without any replica that answers
local SILENCE = 60    -- seconds without a byte (replicas send pings: stream_ping_ms)
local AVOIDED = 1     -- seconds for which a replica is not asked that was gone or refused
local KEEP = {authorization = 1, ["x-api-key"] = 1, ["content-type"] = 1, ["x-request-id"] = 1, ["x-priority"] = 1,
              host = 1}
local DROPPED = {connection = 1, date = 1, server = 1, ["transfer-encoding"] = 1, ["content-length"] = 1,
                 ["x-seed"] = 1}
local shared = ngx.shared.replicas

local replicas = {}
for address in os.getenv("QUIRE_REPLICAS"):gmatch("[^,%s]+") do replicas[#replicas + 1] = address end

-- The one that comes next, and is not avoided unless all are.
local function pick()
    local first = shared:incr("turn", 1, 0)
    for i = 1, #replicas do
        local address = replicas[(first + i) % #replicas + 1]
        if not shared:get(address) then return address end
    end
    return replicas[first % #replicas + 1]
end

-- HTTP/1.0: the answer comes without chunks, and ends with its connection.
local function ask(address, body)
    local host, port = address:match("^(.*):(%d+)$")
    local socket = ngx.socket.tcp()
    socket:settimeouts(2000, 10000, SILENCE * 1000)
    if not socket:connect(host, tonumber(port)) then return nil end
    local head = {"POST " .. ngx.var.uri .. " HTTP/1.0", "X-Resume-Tokens: true", "Content-Length: " .. #body}
    for name, value in pairs(ngx.req.get_headers()) do
        if KEEP[name] and type(value) == "string" then head[#head + 1] = name .. ": " .. value end
    end
    if not socket:send(table.concat(head, "\r\n") .. "\r\n\r\n" .. body) then return nil end
    local answer = {socket = socket, headers = {}, status = tonumber((socket:receive() or ""):match("^HTTP/1.%d (%d+)"))}
    while answer.status do
        local line = socket:receive()
        if not line then return nil end
        if line == "" then return answer end
        local name, value = line:match("^([^:]+): ?(.*)$")
        if name then answer.headers[name:lower()] = value end
    end
end

local function start(answer)
    ngx.status = answer.status
    for name, value in pairs(answer.headers) do
        if not DROPPED[name] then ngx.header[name] = value end
    end
end

-- One event: its lines for the client, and what the others say. nil: the stream is broken.
local function read_event(socket)
    local event = {}
    while true do
        local line = socket:receive()
        if not line then return nil end
        if line == "" then return event end
        local kind, value = line:match("^(:? ?%a+):? (.*)$")
        if kind == "id" then event.id = tonumber(value)
        elseif kind == ": tokens" then event.tokens = value
        elseif kind == ": resume" then event.resume = value
        else event[#event + 1] = line end
    end
end

-- Hand frames on as long as they come. true: the client has all of them, or has gone.
local function stream(socket, state)
    while true do
        local event = read_event(socket)
        if not event then return false end
        local text = table.concat(event, "\n")
        if text:find('^data: {"error"') and text:find('"code":"resumable"', 1, true) then return false end
        if event.resume then state.resume = event.resume:sub(1, -2) end
        if not event.id or event.id > state.sent then
            if not ngx.print(text, "\n\n") or not ngx.flush(true) then return true end
        end
        if event.id then state.sent = math.max(state.sent, event.id) end
        if event.tokens then state.tokens[#state.tokens + 1] = event.tokens end
        if text == "data: [DONE]" then return true end
    end
end

local function body_of(body, state)
    if state.sent < 0 then return body end
    return (body:gsub("^%s*{", function()
        return '{"resume":' .. state.resume .. ',"tokens":[' .. table.concat(state.tokens, ",") .. "]},"
    end, 1))
end

local function fail(state, message)
    local text = '{"error":{"message":"' .. message .. '","type":"unavailable_error","param":null,"code":null}}'
    if state.started then return ngx.print("data: ", text, "\n\ndata: [DONE]\n\n") end
    start({status = 503, headers = {["content-type"] = "application/json", ["retry-after"] = "1"}})
    ngx.print(text)
end

-- true: the client has its answer.
local function hand_on(answer, state)
    if answer.status == 503 then return false end
    if answer.status ~= 200 or not (answer.headers["content-type"] or ""):find("event-stream", 1, true) then
        local whole = not state.started and answer.socket:receive("*a")
        if not whole or #whole ~= tonumber(answer.headers["content-length"]) then return false end
        start(answer)
        return ngx.print(whole) or true
    end
    if not state.started then start(answer) end
    state.started = true
    return stream(answer.socket, state)
end

ngx.req.read_body()
local body, state, since = ngx.req.get_body_data() or "", {sent = -1, tokens = {}}, ngx.now()
while ngx.now() - since < PATIENCE do
    local sent, address = state.sent, pick()
    local answer = ask(address, body_of(body, state))
    if answer and hand_on(answer, state) then return end
    if answer then answer.socket:close() end
    shared:set(address, true, AVOIDED)
    if state.sent >= 0 and not state.resume then break end
    if state.sent > sent then since = ngx.now() else ngx.sleep(0.05) end
    ngx.update_time()
end
fail(state, state.started and "the replica is gone" or "no replica answers")
