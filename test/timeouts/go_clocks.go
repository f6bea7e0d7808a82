// Sleeps, timers and waits of Go, each for a known number of units.
//
// usage: go_clocks SECONDS_PER_UNIT
//
// Prints {way: [units it should take, units it took]}. Go reads the clock through the vDSO on a stack
// of its own, waits by futex, nanosleep and epoll_wait, preempts its threads by signals, and has
// no C library.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

var unit time.Duration

var rows = map[string][2]float64{}

func units(count float64) time.Duration { return time.Duration(count * float64(unit)) }

func check(condition bool, what string) {
	if !condition {
		fmt.Fprintln(os.Stderr, "FAIL", what)
		os.Exit(1)
	}
}

func checkNoError(err error) {
	if err != nil {
		check(false, err.Error())
	}
}

type way struct {
	name  string
	units float64
	run   func()
}

func sleep() { time.Sleep(units(10)) }

func wallClock() {
	// Without its monotonic part, a time is what CLOCK_REALTIME says.
	begin := time.Now().Round(0)
	time.Sleep(units(10))
	rows["wall_clock/elapsed"] = [2]float64{10, float64(time.Now().Round(0).Sub(begin)) / float64(unit)}
}

func timer() { <-time.NewTimer(units(10)).C }

func stoppedTimer() {
	timer := time.NewTimer(units(5))
	check(timer.Stop(), "it was running")
	select {
	case <-timer.C:
		check(false, "a stopped timer expired")
	case <-time.After(units(10)):
	}
}

func resetTimer() {
	timer := time.NewTimer(units(10))
	time.Sleep(units(5))
	timer.Reset(units(10))
	<-timer.C
}

func afterFunc() {
	done := make(chan bool)
	time.AfterFunc(units(10), func() { done <- true })
	<-done
}

func ticker() {
	ticker := time.NewTicker(units(2))
	defer ticker.Stop()
	for i := 0; i < 5; i++ {
		<-ticker.C
	}
}

func contextTimeout() {
	ctx, cancel := context.WithTimeout(context.Background(), units(10))
	defer cancel()
	<-ctx.Done()
	check(ctx.Err() == context.DeadlineExceeded, "deadline exceeded")
}

func contextDeadline() {
	ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(units(10)).Round(0))
	defer cancel()
	<-ctx.Done()
}

func contextCancelled() {
	ctx, cancel := context.WithTimeout(context.Background(), units(100))
	go func() {
		time.Sleep(units(10))
		cancel()
	}()
	<-ctx.Done()
	check(ctx.Err() == context.Canceled, "cancelled")
}

func selectTimeout() {
	select {
	case <-make(chan bool):
	case <-time.After(units(10)):
	}
}

func goroutines() {
	var group sync.WaitGroup
	for i := 1; i <= 200; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			time.Sleep(units(float64(i) / 20))
		}(i)
	}
	group.Wait()
}

func lockedThreads() {
	// Threads of the operating system, each of which sleeps.
	var group sync.WaitGroup
	for i := 1; i <= 5; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			runtime.LockOSThread()
			time.Sleep(units(float64(2 * i)))
		}(i)
	}
	group.Wait()
}

func nanosleepSyscall() {
	time := syscall.NsecToTimespec(int64(units(10)))
	checkNoError(syscall.Nanosleep(&time, nil))
}

func channels() {
	messages := make(chan int)
	go func() {
		for i := 0; i < 10; i++ {
			time.Sleep(units(1))
			messages <- i
		}
		close(messages)
	}()
	for range messages {
	}
}

func condition() {
	var mutex sync.Mutex
	condition := sync.NewCond(&mutex)
	mutex.Lock()
	time.AfterFunc(units(10), func() {
		mutex.Lock()
		condition.Broadcast()
		mutex.Unlock()
	})
	condition.Wait()
	mutex.Unlock()
}

func readDeadline() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	checkNoError(err)
	defer listener.Close()
	go func() {
		connection, _ := listener.Accept()
		time.Sleep(units(5))
		connection.Write([]byte{1})
		time.Sleep(units(100))
	}()
	connection, err := net.Dial("tcp", listener.Addr().String())
	checkNoError(err)
	defer connection.Close()
	byte := make([]byte, 1)
	connection.SetReadDeadline(time.Now().Add(units(10)))
	_, err = io.ReadFull(connection, byte)
	checkNoError(err)
	_, err = connection.Read(byte)
	network, ok := err.(net.Error)
	check(ok && network.Timeout(), "a timeout")
}

func acceptDeadline() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	checkNoError(err)
	defer listener.Close()
	listener.(*net.TCPListener).SetDeadline(time.Now().Add(units(10)))
	_, err = listener.Accept()
	network, ok := err.(net.Error)
	check(ok && network.Timeout(), "a timeout")
}

func pipeFromAGoroutine() {
	reader, writer, err := os.Pipe()
	checkNoError(err)
	go func() {
		time.Sleep(units(10))
		writer.Write([]byte{1})
	}()
	_, err = reader.Read(make([]byte, 1))
	checkNoError(err)
}

func childProcess() {
	checkNoError(exec.Command("sleep", fmt.Sprint(units(10).Seconds())).Run())
}

func childThatTimesOut() {
	ctx, cancel := context.WithTimeout(context.Background(), units(10))
	defer cancel()
	check(exec.CommandContext(ctx, "sleep", "100000").Run() != nil, "it was killed")
}

func signalled() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	time.AfterFunc(units(10), func() { syscall.Kill(os.Getpid(), syscall.SIGUSR1) })
	<-signals
	signal.Stop(signals)
}

func preempted() {
	// Goroutines that never yield are preempted by signals, which end no sleep early.
	stop := false
	var mutex sync.Mutex
	var group sync.WaitGroup
	for i := 0; i < runtime.NumCPU(); i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for turn := 0; ; turn++ {
				mutex.Lock()
				over := stop
				mutex.Unlock()
				if over || turn > 20000000 {
					return
				}
			}
		}()
	}
	time.Sleep(units(10))
	mutex.Lock()
	stop = true
	mutex.Unlock()
	group.Wait()
}

func garbageCollection() {
	done := make(chan bool)
	go func() {
		for i := 0; i < 20; i++ {
			_ = make([]byte, 1<<20)
			runtime.GC()
		}
		done <- true
	}()
	time.Sleep(units(10))
	<-done
}

func main() {
	seconds, err := strconv.ParseFloat(os.Args[1], 64)
	checkNoError(err)
	unit = time.Duration(seconds * float64(time.Second))
	ways := []way{
		{"sleep", 10, sleep},
		{"wall_clock", 10, wallClock},
		{"timer", 10, timer},
		{"stopped_timer", 10, stoppedTimer},
		{"reset_timer", 15, resetTimer},
		{"after_func", 10, afterFunc},
		{"ticker", 10, ticker},
		{"context_timeout", 10, contextTimeout},
		{"context_deadline", 10, contextDeadline},
		{"context_cancelled", 10, contextCancelled},
		{"select_timeout", 10, selectTimeout},
		{"goroutines", 10, goroutines},
		{"locked_threads", 10, lockedThreads},
		{"nanosleep_syscall", 10, nanosleepSyscall},
		{"channels", 10, channels},
		{"condition", 10, condition},
		{"read_deadline", 10, readDeadline},
		{"accept_deadline", 10, acceptDeadline},
		{"pipe_from_a_goroutine", 10, pipeFromAGoroutine},
		{"child_process", 10, childProcess},
		{"child_that_times_out", 10, childThatTimesOut},
		{"signalled", 10, signalled},
		{"preempted", 10, preempted},
		{"garbage_collection", 10, garbageCollection},
	}
	known := map[string]bool{}
	for _, name := range os.Args[2:] {
		known[name] = true
	}
	for _, way := range ways {
		if len(known) > 0 && !known[way.name] {
			continue
		}
		begin := time.Now()
		way.run()
		rows[way.name] = [2]float64{way.units, float64(time.Since(begin)) / float64(unit)}
	}
	output, err := json.Marshal(rows)
	checkNoError(err)
	fmt.Println(string(output))
}
