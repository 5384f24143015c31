// Read by every Node of an app that the sandbox starts, before it runs anything.
//
// Points @slack/web-api at the sandbox (required or imported), ends the app where it would reach
// the real Slack, and refuses connections to other machines.
"use strict";

const fs = require("node:fs");
const Module = require("node:module");
const net = require("node:net");
const { isMainThread } = require("node:worker_threads");

const { api, slack, allowed } = JSON.parse(process.env.LOCAL_SLACK);
const here = ["localhost", "0.0.0.0", "::", "::1"];
const told = new Set();

function say(text) {
  fs.writeSync(2, `local Slack: ${text}\n`);
}

function stop(why) {
  say(why);
  if (isMainThread) process.exit(1);
  process.kill(process.pid, "SIGKILL"); // exit would end this thread only
}

// Why a host may not be reached, "" where it may.
function refusal(host) {
  const name = host.toLowerCase().replace(/\.$/, "");
  if (slack.some((each) => name === each || name.endsWith(`.${each}`)))
    stop(`the app was ended as it was about to reach ${host}; give it SLACK_API_URL`);
  if (here.includes(name) || /^(::ffff:)?127(\.\d+)+$/.test(name) || allowed.includes(name)) return "";
  const text = `refused a connection to ${host}, which is not this machine (--allow ${host} lets it)`;
  if (!told.has(name)) say(text);
  told.add(name);
  return text;
}

// Every TCP connection of Node comes through here: http, https, http2, tls and fetch as well.
const { connect } = net.Socket.prototype;
net.Socket.prototype.connect = function (...given) {
  const [options] = Array.isArray(given[0]) ? given[0] : net._normalizeArgs(given);
  const why = options.path ? "" : refusal(String(options.host || "localhost"));
  if (!why) return connect.apply(this, given);
  process.nextTick(() => this.destroy(Object.assign(new Error(`local Slack: ${why}`), { code: "ECONNREFUSED" })));
  return this;
};

// Whatever reads a module, also what makes JavaScript of TypeScript first, has it compiled here; one
// that is imported too, as the package is CommonJS.
const compile = Module.prototype._compile;
Module.prototype._compile = function (content, file, ...more) {
  const result = compile.call(this, content, file, ...more);
  redirect(this, file);
  return result;
};

function redirect(module, file) {
  if (!/[\\/]@slack[\\/]web-api[\\/]/.test(file)) return;
  const original = Object.getOwnPropertyDescriptor(module.exports ?? {}, "WebClient")?.value;
  if (typeof original !== "function") return;
  class WebClient extends original {
    constructor(token, options = {}) {
      super(token, { ...options, slackApiUrl: options.slackApiUrl ?? api });
    }
  }
  for (const name of ["WebClient", "default"])
    if (module.exports[name] === original) module.exports[name] = WebClient;
}

// Proxies lead nowhere for programs without this file; here they would only be in the way.
for (const name of Object.keys(process.env)) if (/_proxy$/i.test(name)) delete process.env[name];
