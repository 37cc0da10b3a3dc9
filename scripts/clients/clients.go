// The clients of run.sh that are Go modules. Prints a line for each; the exit status is 1 when one fails.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"runtime/debug"
	"strings"

	official "github.com/openai/openai-go/v3"
	community "github.com/sashabaranov/go-openai"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

var (
	ctx       = context.Background()
	recording = os.Getenv("RECORDING")
	noLetter  = regexp.MustCompile(`[^a-z ]+`)
)

// check returns an error unless a text has the words of the recording.
func check(text string, err error) error {
	if err != nil {
		return err
	}
	words := strings.Join(strings.Fields(noLetter.ReplaceAllString(strings.ToLower(text), " ")), " ")
	if !strings.Contains(words, "ask not what your country can do for you") {
		return fmt.Errorf("the text is %q", text)
	}
	return nil
}

func first(checks ...func() error) error {
	for _, run := range checks {
		if err := run(); err != nil {
			return err
		}
	}
	return nil
}

func communityClient() error {
	config := community.DefaultConfig(os.Getenv("API_KEY"))
	config.BaseURL = os.Getenv("OPENAI_BASE_URL")
	client := community.NewClientWithConfig(config)
	send := func(request community.AudioRequest) func() error {
		request.FilePath = recording
		return func() error {
			answer, err := client.CreateTranscription(ctx, request)
			return check(answer.Text, err)
		}
	}
	return first(
		send(community.AudioRequest{Model: community.Whisper1}),
		send(community.AudioRequest{Model: community.GPT4oTranscribe}),
		send(community.AudioRequest{Model: community.Whisper1, Format: community.AudioResponseFormatVerboseJSON}),
		send(community.AudioRequest{Model: community.Whisper1, Format: community.AudioResponseFormatSRT}),
		send(community.AudioRequest{Model: community.Whisper1, Format: community.AudioResponseFormatVTT}),
		send(community.AudioRequest{Model: community.Whisper1, Format: community.AudioResponseFormatText}),
		send(community.AudioRequest{Model: community.Whisper1, Prompt: "President Kennedy", Temperature: 0.4}),
	)
}

func officialClient() error {
	// Address and key are those of the environment, as usual.
	client := official.NewClient()
	send := func(params official.AudioTranscriptionNewParams) func() error {
		return func() error {
			file, err := os.Open(recording)
			if err != nil {
				return err
			}
			defer file.Close()
			params.File = file
			answer, err := client.Audio.Transcriptions.New(ctx, params)
			if err != nil {
				return err
			}
			return check(answer.Text, nil)
		}
	}
	stream := func() error {
		file, err := os.Open(recording)
		if err != nil {
			return err
		}
		defer file.Close()
		params := official.AudioTranscriptionNewParams{Model: official.AudioModelGPT4oTranscribe, File: file}
		events := client.Audio.Transcriptions.NewStreaming(ctx, params)
		text := ""
		for events.Next() {
			text += events.Current().Delta
		}
		return check(text, events.Err())
	}
	return first(
		send(official.AudioTranscriptionNewParams{Model: official.AudioModelWhisper1}),
		send(official.AudioTranscriptionNewParams{
			Model: official.AudioModelWhisper1, ResponseFormat: official.AudioResponseFormatVerboseJSON,
		}),
		send(official.AudioTranscriptionNewParams{
			Model: official.AudioModelGPT4oTranscribe, Prompt: official.String("President Kennedy"),
			Temperature: official.Float(0.4), Include: []official.TranscriptionInclude{"logprobs"},
		}),
		stream,
	)
}

// webhook verifies the delivery that the client in Python received.
func webhook() error {
	var delivery struct {
		Secret, Body string
		Headers      map[string]string
	}
	data, err := os.ReadFile(os.Getenv("WORK") + "/delivery.json")
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &delivery); err != nil {
		return err
	}
	headers := http.Header{}
	for name, value := range delivery.Headers {
		headers.Set(name, value)
	}
	verifier, err := standardwebhooks.NewWebhook(delivery.Secret)
	if err != nil {
		return err
	}
	if verifier.Verify([]byte(delivery.Body+" "), headers) == nil {
		return fmt.Errorf("an event that was changed is taken for genuine")
	}
	return verifier.Verify([]byte(delivery.Body), headers)
}

func main() {
	versions := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			versions[module.Path] = module.Version
		}
	}
	failed := false
	for _, client := range []struct {
		module, name, what string
		run                func() error
	}{
		{"github.com/standard-webhooks/standard-webhooks/libraries", "standardwebhooks", "the same two deliveries", webhook},
		{"github.com/sashabaranov/go-openai", "go-openai",
			"json with 2 models, verbose_json, srt, vtt, text, prompt, temperature", communityClient},
		{"github.com/openai/openai-go/v3", "openai-go",
			"json, verbose_json, stream, prompt, temperature, include", officialClient},
	} {
		name := fmt.Sprintf("%s %s (Go): %s", client.name, versions[client.module], client.what)
		if err := client.run(); err != nil {
			failed = true
			fmt.Printf("fails  %s: %v\n", name, err)
		} else {
			fmt.Printf("works  %s\n", name)
		}
	}
	if failed {
		os.Exit(1)
	}
}
