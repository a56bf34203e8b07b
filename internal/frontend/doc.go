// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package frontend asks the frontends of a deployment which workers they have discovered. A frontend of Dynamo lists them at /health:
//
//	{"status": "healthy", "instances": [{"namespace": "team-llm-3f2a9c01", "component": "backend", "endpoint": "generate", "instance_id": 42, ...}]}
//
// Frontends are asked in the background, a few at the same time: a caller gets the last answer, and never waits for one. There are three
// answers: the instances that the frontend lists; that it lists none, since its runtime or its program does not do that; and why it does
// not answer.
package frontend
